#pragma once

#include <functional>

#include "setup/agreement.hpp"

namespace strata::host {

/// Does this rank's `work`, which may be empty, on a thread of its own. Returns when all ranks have done theirs. The
/// ranks ask each other every few milliseconds meanwhile, so work that waits for a disk counts against no timeout of a
/// communicator. Collective. \throws what `work` throws.
void work_together(Agreement& agreement, const std::function<void()>& work);

}  // namespace strata::host
