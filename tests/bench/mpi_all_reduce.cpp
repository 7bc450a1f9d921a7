// Measures all_reduce of the communicator mpi beside MPI_Allreduce, on host memory.
//
//     mpirun -n RANKS build/release/bin/bench/mpi_all_reduce RANKS [ROUNDS] [PLUGINS]
//
// The communicator initialises MPI, as in a run. PLUGINS is the folder of the plugins. Both are measured in turns:
// ROUNDS rounds of each size. A round takes as long as its slowest rank. Each line has the size, the median time of
// both, the rate of the communicator's (bytes of the buffer a second), and the median of the rounds' ratios: above 1,
// the communicator is faster.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "loading/plugin_registry.hpp"
#include "strata/communicator.hpp"
#include "strata/registration.hpp"

namespace {

using namespace strata;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one of `calls` calls.
double time_of(int calls, const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
}

/// The time of the slowest rank.
double slowest(double seconds) {
  double result = 0;
  MPI_Allreduce(&seconds, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

class Bench {
 public:
  Bench(const CommunicatorFactory& communicators, Device& device, int ranks)
      : communicators_(communicators), device_(device), ranks_(ranks) {}

  /// Seconds of one call.
  double with_strata(std::vector<float>& data, int calls) {
    double seconds = 0;
    {
      const auto world = communicators_.create(Options(communicators_.options(), {}), ranks_);
      const auto communicator = world->connect(world->local_ranks().front(), device_);
      std::vector<int> all(static_cast<std::size_t>(ranks_));
      std::iota(all.begin(), all.end(), 0);
      CollectiveCall call{.group = communicator->create_group(all)};
      call.input = call.output = data.data();
      call.elements = static_cast<std::int64_t>(data.size());
      communicator->start(call)->wait();
      seconds = time_of(calls, [&] { communicator->start(call)->wait(); });
    }
    return slowest(seconds);
  }

  static double with_mpi(std::vector<float>& data, int calls) {
    const auto call = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    call();
    return slowest(time_of(calls, call));
  }

 private:
  const CommunicatorFactory& communicators_;
  Device& device_;
  int ranks_;
};

void run(int ranks, int rounds, const std::filesystem::path& plugins) {
  host::PluginRegistry registry({plugins});
  const auto& communicators = registry.load<CommunicatorFactory>("mpi");
  const auto& devices = registry.load<DeviceFactory>("cpu");
  (void)communicators.create(Options(communicators.options(), {}), ranks);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const KernelRegistry kernels;
  const auto device = devices.create(Options(devices.options(), {}), {.kernels = &kernels, .ranks_on_host = ranks});
  Bench bench(communicators, *device, ranks);
  for (const std::size_t bytes : {4096UL, 65536UL, 1UL << 20, 16UL << 20, 64UL << 20}) {
    const int calls = static_cast<int>(std::clamp<std::size_t>((64UL << 20) / bytes, 4, 200));
    std::vector<float> data(bytes / sizeof(float));
    std::vector<double> strata;
    std::vector<double> mpi;
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      strata.push_back(bench.with_strata(data, calls));
      mpi.push_back(Bench::with_mpi(data, calls));
      ratios.push_back(mpi.back() / strata.back());
    }
    if (rank != 0) continue;
    std::printf("%9zu bytes  strata %8.1f us  MPI_Allreduce %8.1f us  %6.2f GB/s  ratio %.2f\n", bytes,
                1e6 * median(strata), 1e6 * median(mpi), 1e-9 * static_cast<double>(bytes) / median(strata),
                median(ratios));
  }
}

}  // namespace

int main(int count, char** words) {
  const int ranks = count > 1 ? std::atoi(words[1]) : 2;
  const int rounds = count > 2 ? std::atoi(words[2]) : 5;
  const std::filesystem::path plugins =
      count > 3 ? words[3] : std::filesystem::canonical("/proc/self/exe").parent_path() / "../../lib/strata/plugins";
  run(ranks, std::max(1, rounds), plugins);
  return 0;
}
