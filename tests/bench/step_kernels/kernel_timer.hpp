#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "step_kernels/step_kernel.hpp"

namespace strata::bench {

struct TimerSettings {
  /// Number of timings, of which the median counts, and their shortest duration.
  int repetitions = 5;
  double seconds = 0.02;
  /// Launches rotate over so many bytes of operands that caches cannot hold them.
  std::int64_t rotation_bytes = std::int64_t{256} << 20;
  /// Exclusive upper bound of integer operands, which are table rows or logit columns.
  std::int64_t integers_below = 256;
};

/// Times work on a device's compute stream.
class KernelTimer {
 public:
  KernelTimer(Device& device, TimerSettings settings);

  /// Average seconds of one of many launches. If the device can capture them, they run as a graph.
  [[nodiscard]] double seconds(const StepKernel& kernel);
  /// Average seconds of a copy within the device's memory.
  [[nodiscard]] double copy_seconds(std::int64_t bytes);

 private:
  struct Arguments;

  [[nodiscard]] Arguments make_arguments(const StepKernel& kernel);
  /// Memory with random numbers, which are positive if they may be squares, sums or counts.
  [[nodiscard]] std::shared_ptr<void> filled(DType dtype, std::int64_t bytes);
  /// Seconds of one launch. `enqueue` puts `launches` launches on the stream.
  [[nodiscard]] double time(int launches, const std::function<void()>& enqueue);
  /// The median of repetitions, in seconds of one `run`.
  [[nodiscard]] double median_seconds(const std::function<void()>& run);
  [[nodiscard]] double elapsed(int runs, const std::function<void()>& run);

  Device& device_;
  TimerSettings settings_;
  std::map<DType, std::shared_ptr<void>> patterns_;
};

}  // namespace strata::bench
