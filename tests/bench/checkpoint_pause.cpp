/// \file
/// Measures how long checkpoints delay training, in the foreground and in the background, on a disk of a given speed.
/// Usage: checkpoint_pause CONFIG [--rate MEGABYTES_PER_SECOND] [--rounds N] [--set KEY=VALUE]...

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "train/run_recorder.hpp"

namespace {

using namespace strata;
using namespace strata::host;

/// A disk that all ranks share, and that takes so many bytes per second.
class LimitedDisk : public Disk {
 public:
  explicit LimitedDisk(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  ssize_t write(int descriptor, const void* data, std::size_t bytes) const override {
    std::this_thread::sleep_until(reserve(bytes));
    return Disk::write(descriptor, data, bytes);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point reserve(std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second_);
    free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    return free_;
  }

  double bytes_per_second_;
  mutable std::mutex mutex_;
  mutable Clock::time_point free_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Pause {
  double pause = 0;
  double wait = 0;
  double write = 0;
  double step = 0;
  std::uint64_t bytes = 0;
};

Pause measure(const RunSetup& setup, CheckpointMode mode, const Disk& disk, const std::filesystem::path& folder) {
  const DataSource source = setup.open_data();
  RunRecorder recorder;
  const CheckpointSettings settings{folder, setup.configuration.run.checkpoint_every, 1, mode, &disk};
  Trainer(setup, source, settings, {}, recorder).run();
  std::vector<double> pauses;
  std::vector<double> waits;
  std::vector<double> writes;
  std::vector<double> step_seconds;
  for (const StepRecord& each : recorder.steps) step_seconds.push_back(each.seconds);
  for (const CheckpointRecord& each : recorder.checkpoints) {
    pauses.push_back(each.pause_seconds);
    waits.push_back(each.wait_seconds);
    writes.push_back(each.write_seconds);
  }
  return {median(pauses), median(waits), median(writes), median(step_seconds), recorder.checkpoints.back().bytes};
}

int run(const std::string& config, const std::vector<std::string>& overrides, double rate, int rounds) {
  PluginRegistry registry{{std::filesystem::canonical("/proc/self/exe").parent_path() / "../../lib/strata/plugins"}};
  const RunSetup setup = prepare(load_configuration(config, overrides), registry);
  const LimitedDisk disk(rate * 1e6);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("checkpoint-pause-" + std::to_string(::getpid()));
  std::printf("mode         bytes       pause s   wait s    writing s  step s\n");
  double foreground = 0;
  double background = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const CheckpointMode mode : {CheckpointMode::foreground, CheckpointMode::background}) {
      const Pause pause = measure(setup, mode, disk, folder);
      const bool waits = mode == CheckpointMode::foreground;
      std::printf("%-10s %10llu  %10.4f  %7.4f  %10.4f %7.4f\n", waits ? "foreground" : "background",
                  static_cast<unsigned long long>(pause.bytes), pause.pause, pause.wait, pause.write, pause.step);
      (waits ? foreground : background) += pause.pause + pause.wait;
      std::filesystem::remove_all(folder);
    }
  }
  std::printf("background / foreground: %.2f %%\n", 100 * background / foreground);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Measures how long checkpoints delay training");
  std::string config;
  std::vector<std::string> overrides;
  double rate = 200;
  int rounds = 1;
  app.add_option("CONFIG", config)->required();
  app.add_option("--set", overrides)->allow_extra_args(false);
  app.add_option("--rate", rate, "Megabytes that the disk takes a second");
  app.add_option("--rounds", rounds);
  CLI11_PARSE(app, count, words);
  try {
    return run(config, overrides, rate, rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
