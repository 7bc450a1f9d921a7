#pragma once

#include <memory>
#include <optional>

#include "language/stream.hpp"
#include "strata/device.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

/// The values of the current step in GPU memory, where the kernels of the compute stream read them.
class CurrentStep {
 public:
  CurrentStep();

  [[nodiscard]] const StepValues* address() const;
  /// Makes `step` visible to later kernels of the stream. Enqueues nothing if the same values are already stored.
  /// Enqueues nothing during a capture either, because each launch of the graph gets its own step.
  void set(const StepContext& step, Stream stream);

  void begin_capture() { captures_ = true; }
  void end_capture() { captures_ = false; }
  [[nodiscard]] bool captures() const { return captures_; }

 private:
  std::shared_ptr<void> memory_;
  std::optional<StepValues> stored_;
  bool captures_ = false;
};

}  // namespace strata::cuda
