#pragma once

#include "compiler/program/program_builder.hpp"
#include "plugins/plugin_call.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Asks the device for the kernel of every compute instruction and adds the kernel's workspace. Runs after the last
/// phase that adds instructions. \throws PluginError of the device's `origin` if it has no kernel for an instruction.
void add_workspaces(ProgramBuilder& builder, const Device& device, const PluginOrigin& origin);

}  // namespace strata::host
