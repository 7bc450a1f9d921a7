#pragma once

#include <functional>
#include <memory>

#include "device/current_step.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// Captures the work that `enqueue` puts on the compute stream of a GPU. \see Device::capture
std::unique_ptr<StepGraph> capture_step(int gpu, const std::shared_ptr<void>& stream,
                                        const std::shared_ptr<CurrentStep>& current_step,
                                        const std::function<void()>& enqueue);

}  // namespace strata::cuda
