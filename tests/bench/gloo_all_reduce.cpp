/// \file
/// all_reduce of the communicator 'gloo' beside gloo's own, in processes of this machine:
///
///     gloo_all_reduce PLUGIN_FOLDER [RANKS] [ROUNDS]
///
/// Both reduce the same numbers, in rounds that alternate. Prints for each size the median time of one all_reduce on
/// rank 0, by the clock and on the processors, and the ratio of the medians, which is above 1 where the communicator is
/// faster. Each side has connections
/// of its own, because gloo's slots must not be used twice.

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "conformance/communicator_bench.hpp"
#include "conformance/subject.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::filesystem::path plugins;
  int ranks = 2;
  int rounds = 9;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Milliseconds of one all_reduce: as a clock measures them, and of all threads of this process on a processor.
struct Times {
  std::vector<double> clock = {};
  std::vector<double> processor = {};
};

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void measure(Times& times, int count, const std::function<void()>& run) {
  const double processor = processor_seconds();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) run();
  times.clock.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / count);
  times.processor.push_back(1e3 * (processor_seconds() - processor) / count);
}

/// Both sides on one rank.
class Sides {
 public:
  Sides(const Settings& settings, host::Noticeboard& board, const std::filesystem::path& folder)
      : registry_({settings.plugins}) {
    host::become_rank(board, settings.ranks);
    const auto& devices = registry_.load<DeviceFactory>("cpu");
    device_ = devices.create(Options(devices.options(), {}),
                             {.kernels = &kernels_, .rank = board.process(), .ranks_on_host = settings.ranks});
    const auto& communicators = registry_.load<CommunicatorFactory>("gloo");
    world_ = communicators.create(Options(communicators.options(), {}), settings.ranks);
    communicator_ = world_->connect(board.process(), *device_);
    group_ = communicator_->create_group(host::all_ranks(settings.ranks));

    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    auto context = std::make_shared<gloo::rendezvous::Context>(board.process(), settings.ranks);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  void run_strata(std::vector<float>& numbers) {
    CollectiveCall call{.group = group_};
    call.input = call.output = numbers.data();
    call.elements = static_cast<std::int64_t>(numbers.size());
    call.id = 1;
    call.name = &name_;
    communicator_->start(call)->wait();
  }

  void run_gloo(std::vector<float>& numbers) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(numbers.data(), numbers.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    options.setTag(tag_++);
    gloo::allreduce(options);
  }

 private:
  host::PluginRegistry registry_;
  KernelRegistry kernels_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Communicator> communicator_;
  int group_ = 0;
  std::string name_ = "bench";
  std::shared_ptr<gloo::Context> context_;
  std::uint32_t tag_ = 1;
};

void run_rank(const Settings& settings, int rank, const std::filesystem::path& folder) {
  host::Noticeboard board(folder, rank, settings.ranks);
  Sides sides(settings, board, folder);
  if (rank == 0)
    std::cout << settings.ranks
              << " processes\n       bytes   strata ms     gloo ms   ratio  strata CPU ms    gloo CPU ms   ratio\n";
  for (const std::size_t bytes :
       {std::size_t{4} << 10U, std::size_t{256} << 10U, std::size_t{4} << 20U, std::size_t{64} << 20U}) {
    std::vector<float> numbers(bytes / sizeof(float), 0.0F);
    const int count = static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20U) / bytes, 1, 200));
    Times strata;
    Times plain;
    for (int round = -1; round < settings.rounds; ++round) {
      if (round == 0) strata = plain = {};  // after the warm-up
      measure(strata, count, [&] { sides.run_strata(numbers); });
      measure(plain, count, [&] { sides.run_gloo(numbers); });
    }
    if (rank != 0) continue;
    const double ratio = median(plain.clock) / median(strata.clock);
    const double processor_ratio = median(plain.processor) / median(strata.processor);
    std::cout << std::setw(12) << bytes << std::fixed << std::setprecision(3) << std::setw(12) << median(strata.clock)
              << std::setw(12) << median(plain.clock) << std::setprecision(2) << std::setw(8) << ratio
              << std::setprecision(3) << std::setw(15) << median(strata.processor) << std::setw(15)
              << median(plain.processor) << std::setprecision(2) << std::setw(8) << processor_ratio << std::endl;
  }
}

int run(const Settings& settings) {
  const host::TemporaryFolder folder;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < settings.ranks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      int code = 0;
      try {
        run_rank(settings, rank, folder.path());
      } catch (const std::exception& error) {
        std::cerr << "rank " << rank << ": " << error.what() << std::endl;
        code = 1;
      }
      ::_exit(code);
    }
    processes.push_back(process);
  }
  int failed = 0;
  for (const pid_t process : processes) {
    int status = 0;
    ::waitpid(process, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed = 1;
  }
  return failed;
}

}  // namespace
}  // namespace strata

int main(int count, char** words) {
  if (count < 2) {
    std::cerr << "usage: gloo_all_reduce PLUGIN_FOLDER [RANKS] [ROUNDS]\n";
    return 2;
  }
  strata::Settings settings{.plugins = words[1]};
  if (count > 2) settings.ranks = std::atoi(words[2]);
  if (count > 3) settings.rounds = std::atoi(words[3]);
  return strata::run(settings);
}
