#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>

#include "verify/verification.hpp"

namespace strata::host {

/// Prints two tables: gradients by op and operand, and kernels by op and types.
void print_ops(std::ostream& out, const OpVerification& verification);

/// The same as JSON, one object per row.
[[nodiscard]] nlohmann::ordered_json ops_json(const OpVerification& verification);

}  // namespace strata::host
