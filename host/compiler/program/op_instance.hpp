#pragma once

#include <cstdint>

#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The OpInstance of a compute instruction for the rank at `coordinates`. \throws VerificationError for another
/// instruction, or if the instruction does not iterate one of its dimensions.
[[nodiscard]] OpInstance describe_instruction(const Program& program, const Instruction& instruction,
                                              const Coordinates& coordinates, std::uint64_t seed);

}  // namespace strata::host
