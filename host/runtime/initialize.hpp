#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// What a rank's part of a parameter starts with, in the dtype of its buffer. Element e of the whole tensor is drawn
/// from (seed, the parameter's name, e): it does not depend on the layout or the number of ranks.
[[nodiscard]] std::vector<std::byte> initial_values(const Program& program, const StoredParameter& parameter, int rank,
                                                    std::uint64_t seed);

/// Sets every parameter of the rank to its start, and the optimizer's state to zero.
void initialize(Executor& executor, std::uint64_t seed);

}  // namespace strata::host
