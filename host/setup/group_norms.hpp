#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "config/run_configuration.hpp"
#include "log/training_record.hpp"
#include "runtime/executor.hpp"

namespace strata::host {

/// The layer of a parameter: its name up to the first number, or without its last part. Examples: "h.3.attn.weight" is
/// of "h.3", "model.embed_tokens.weight" of "model.embed_tokens".
[[nodiscard]] std::string layer_of(const std::string& parameter);

/// The rule of log.norm_groups (OptimizerSettings::norm_group). Empty if only the global norm is logged.
[[nodiscard]] std::function<std::string(const std::string&)> norm_group_rule(const RunConfiguration& configuration,
                                                                             const OptimizerSettings& optimizer);

/// The norms of the groups after a step. `reports`: of that step. `replicas`: how many train apart
/// (Stack::unsynchronized). The norms are then root mean squares over them.
[[nodiscard]] std::vector<GroupNorm> read_group_norms(Executor& executor, const NormGroupIndex& groups,
                                                      const Reports& reports, double loss_scale, int replicas);

}  // namespace strata::host
