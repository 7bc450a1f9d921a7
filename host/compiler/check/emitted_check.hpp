#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Checks an instruction by itself: one that a strategy adds to an unfinished program, before any phase reads it, and
/// every one of a complete program (verify(Program)). \return what is wrong with `instruction`: a buffer that is not
/// there, a condition that no step fulfils, or a number of inputs or outputs that its kind of work does not have. Empty
/// if nothing is.
[[nodiscard]] std::optional<std::string> find_fault(const Program& program, const Instruction& instruction);

/// \return what is wrong with the axes of a communication of the strategy that adds the axes `own`. Empty if nothing
/// is.
[[nodiscard]] std::optional<std::string> find_foreign_axis(const Instruction& instruction,
                                                           const std::vector<MeshAxis>& own);

/// \return what is wrong with the sizes of a buffer. Empty if nothing is.
[[nodiscard]] std::optional<std::string> find_fault(const std::string& buffer, const Shape& shape);

}  // namespace strata::host
