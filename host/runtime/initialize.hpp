#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor.hpp"
#include "runtime/shards.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// What a rank's part of a parameter starts with, as `dtype`. Element e of the whole tensor is drawn from (seed, the
/// parameter's name, e): it does not depend on the layout or the number of ranks. In a 16-bit type it is the f32 value,
/// rounded, whether or not the rank holds that one too.
[[nodiscard]] std::vector<std::byte> initial_values(const StoredParameter& parameter, const Shard& shard, DType dtype,
                                                    std::uint64_t seed);

/// Sets every parameter of the rank, and its master copy, to its start, and all other states of the optimizer to zero.
void initialize(Executor& executor, std::uint64_t seed);

}  // namespace strata::host
