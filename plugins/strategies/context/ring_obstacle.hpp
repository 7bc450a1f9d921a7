#pragma once

#include <string>

#include "strata/lowering.hpp"

namespace context {

/// Why the keys of a node cannot move around a ring over `axis`, as the end of "it is not possible because". Empty if
/// they can.
[[nodiscard]] std::string ring_obstacle(const strata::NodeToLower& node, const strata::Axis& axis);

}  // namespace context
