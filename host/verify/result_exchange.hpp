#pragma once

#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// What each rank found, by rank: its losses, norms, evaluations, tensors and peaks. Every rank makes the call. The
/// results travel over the communicator.
[[nodiscard]] std::vector<StackResult> gather_results(Communicator& communicator, Device& device,
                                                      const StackResult& own);

}  // namespace strata::host
