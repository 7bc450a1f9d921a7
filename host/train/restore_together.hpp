#pragma once

#include "checkpoint/checkpoint.hpp"
#include "runtime/executor.hpp"
#include "setup/agreement.hpp"

namespace strata::host {

/// Restores the rank of `executor` from a checkpoint. Collective: the ranks meet after every tensor, because one that
/// reads much must not keep others waiting until their communication times out. If a rank fails, the others return, and
/// it throws when all have read what they need.
void restore_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement);

/// Sets the values of an initialised rank to those of a checkpoint, as CheckpointReader::restore_values() does.
/// Collective, as restore_together() is.
void restore_values_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement);

}  // namespace strata::host
