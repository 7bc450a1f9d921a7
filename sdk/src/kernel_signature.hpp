#pragma once

#include <optional>
#include <string>

#include "strata/kernel.hpp"

namespace strata {

/// True if the kernel has as many operands and results as the instance.
bool takes_as_many(const KernelSignature& kernel, const OpInstance& op);

/// Why the kernel does not accept the element types of an instance. Empty if it does.
std::optional<std::string> type_mismatch(const KernelSignature& kernel, const OpInstance& op);

/// The instance that a kernel computes itself. If `is_wanted`, that is `op` unchanged. If not, the results have the
/// types that the signature says and are not accumulated, so they must be converted or added afterwards.
struct NaturalInstance {
  OpInstance op;
  bool is_wanted = false;
};
NaturalInstance natural_instance(const KernelSignature& kernel, const OpInstance& op);

/// Why a signature is invalid. Empty if it is valid.
std::optional<std::string> signature_fault(const KernelSignature& kernel);

}  // namespace strata
