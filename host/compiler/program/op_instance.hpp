#pragma once

#include "compiler/program/program_builder.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// What a device is told of a compute instruction for the rank at `coordinates`.
[[nodiscard]] OpInstance describe_instruction(const Program& program, const Instruction& instruction,
                                              const Coordinates& coordinates, std::uint64_t seed);

/// Asks the device for the scratch memory of every compute instruction and adds it to the program.
/// \throws ConfigurationError for an op that the device does not support.
void add_workspaces(ProgramBuilder& builder, const Device& device);

}  // namespace strata::host
