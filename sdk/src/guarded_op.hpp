#pragma once

#include <memory>
#include <string>

#include "strata/op.hpp"

namespace strata {

/// Wraps an op so that errors name it. Exceptions of its functions that are not Strata's become a VerificationError
/// with the op, the plugin and the function. Strata's own ops are returned unchanged.
std::unique_ptr<OpDefinition> guarded(std::unique_ptr<OpDefinition> definition, const std::string& origin);

}  // namespace strata
