#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "step_kernels/step_kernel.hpp"

namespace strata::bench {

struct TimerSettings {
  /// Timings of which the median counts, and how long each lasts at least.
  int repetitions = 5;
  double seconds = 0.02;
  /// Launches go round over so many bytes of operands: more than caches hold.
  std::int64_t rotation_bytes = std::int64_t{256} << 20;
  /// Integer operands are below this: they are rows of tables and columns of logits.
  std::int64_t integers_below = 256;
};

/// Times work on a device's compute stream.
class KernelTimer {
 public:
  KernelTimer(Device& device, TimerSettings settings);

  /// Seconds of one launch among many: where the device can capture them they are replayed as a graph.
  [[nodiscard]] double seconds(const StepKernel& kernel);
  /// The same of a copy within the device's memory.
  [[nodiscard]] double copy_seconds(std::int64_t bytes);

 private:
  struct Arguments;

  [[nodiscard]] Arguments make_arguments(const StepKernel& kernel);
  /// Memory of random numbers that are positive where they may be squares, sums or counts.
  [[nodiscard]] std::shared_ptr<void> filled(DType dtype, std::int64_t bytes);
  /// `enqueue` puts `launches` launches on the stream.
  [[nodiscard]] double time(int launches, const std::function<void()>& enqueue);
  [[nodiscard]] double elapsed(int runs, const std::function<void()>& run);

  Device& device_;
  TimerSettings settings_;
  std::map<DType, std::shared_ptr<void>> patterns_;
};

}  // namespace strata::bench
