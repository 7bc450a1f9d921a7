#pragma once

namespace strata::host {

/// Forbids core dumps of this process and of those that it starts. A process that knows the secret of a run calls it: a
/// dump would hold the secret. Debuggers may still attach.
void forbid_core_dumps();

}  // namespace strata::host
