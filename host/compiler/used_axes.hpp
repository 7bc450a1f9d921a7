#pragma once

#include <set>

#include "compiler/stack.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// \throws PluginError if an axis of several ranks shards nothing. The message lists the sizes of the dims that its
/// rules name.
void require_every_axis_used(const Stack& stack, const LayoutRules& rules, const std::set<Axis>& used);

}  // namespace strata::host
