#pragma once

#include "runtime/executor.hpp"
#include "train/health_rule.hpp"

namespace strata::host {

/// Writes the limits of the next step to a program whose guard has limits.
void write_limits(Executor& training, const HealthRule& rule);

/// True if the program's guard left out the update of the step.
[[nodiscard]] bool is_refused(const Reports& reports);

}  // namespace strata::host
