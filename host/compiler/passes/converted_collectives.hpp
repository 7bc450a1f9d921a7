#pragma once

#include <set>
#include <string>

#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"

namespace strata::host {

/// Replaces every collective that a strategy claims (Strategy::convert) by the instructions that the strategy builds.
/// Instructions after its last communication wait for it, so they move to the first reader of the result. \return the
/// names of the strategies that converted a collective. \throws PluginError if no instruction of a
/// conversion writes the output, or if it does not communicate over exactly the collective's axes.
std::set<std::string> convert_collectives(ProgramBuilder& builder, const std::vector<NamedStrategy>& strategies);

}  // namespace strata::host
