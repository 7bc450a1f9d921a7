#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "language/element.hpp"
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

/// Enqueues a store of `values` to device memory at `to`, where later kernels of the stream read them.
void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to);

/// Captures the work that `enqueue` puts on the compute stream of a GPU. \see Device::capture
std::unique_ptr<StepGraph> capture_step(int gpu, const std::shared_ptr<void>& stream,
                                        const std::shared_ptr<CurrentStep>& current_step,
                                        const std::function<void()>& enqueue);

}  // namespace strata::cuda
