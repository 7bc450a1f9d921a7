#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "data/data_source.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Compares what a resumed run has in common with its checkpoint: vocabulary, seed, global batch, model and data.
/// \throws ConfigurationError that names both values, unless run.accept_changed accepts the difference.
void require_same_run(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint);

/// What a run with the checkpoints `plan` drops of its checkpoint: gradients that no update has applied yet. Empty if
/// it drops nothing.
[[nodiscard]] std::optional<std::string> find_dropped(const CheckpointReader& checkpoint,
                                                      const std::vector<CheckpointTensor>& plan);

}  // namespace strata::host
