#pragma once

#include <optional>
#include <string>

#include "device/prepared_op.hpp"

namespace strata::cuda {

/// The entry for an op, or null.
const KernelEntry* find_kernel(const std::string& op);

/// Why operands and results of an instance have types that the entry's kernel doesn't take.
std::optional<std::string> type_mismatch(const KernelEntry& entry, const OpInstance& op);

/// The kernel of an instance that fits its entry: results that it cannot leave as they are wanted are computed in the
/// workspace, then converted or added.
PreparedOp prepare_fitting(const KernelEntry& entry, const OpInstance& op, const Environment& environment);

}  // namespace strata::cuda
