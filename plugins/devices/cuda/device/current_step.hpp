#pragma once

#include <memory>
#include <optional>

#include "language/step_values.hpp"
#include "language/stream.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// The step's values in the memory of the GPU in use, where the kernels of a compute stream find them.
class CurrentStep {
 public:
  CurrentStep();

  [[nodiscard]] const StepValues* address() const;
  /// Kernels that come later on the stream find `step`. Enqueues nothing where they would anyway, or in a capture: its
  /// graph is launched with a step of its own.
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
