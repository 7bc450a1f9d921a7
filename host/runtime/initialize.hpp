#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.hpp"
#include "runtime/shards.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Initial values of a rank's part of a parameter, as `dtype`. Element e of the whole tensor depends only on the seed,
/// the parameter's name and e, and not on layout or number of ranks. In a 16-bit type it is the rounded f32 value,
/// whether or not the rank also holds an f32 copy. \throws RuntimeError that names the parameter if its initializer
/// throws or returns a value that is not finite.
[[nodiscard]] std::vector<std::byte> initial_values(const StoredParameter& parameter, const Shard& shard, DType dtype,
                                                    std::uint64_t seed);

/// A rank's part of a parameter with a derived initializer, as `dtype`. `source`: all values of the tensor that it is
/// derived from. \throws RuntimeError that names the parameter if its initializer throws or returns too few or too many
/// values, or one that is not finite.
[[nodiscard]] std::vector<std::byte> derived_values(const StoredParameter& parameter, std::span<const float> source,
                                                    const Shard& shard, DType dtype);

/// True if a state equals the parameter's values before the first step: the master copy, or a strategy's state that
/// asks for it. All others are zero.
[[nodiscard]] bool begins_as_value(const StoredParameter& parameter, const std::string& state);

/// Sets every parameter of the rank to the initial values, and its states as begins_as_value() says.
void initialize(Executor& executor, std::uint64_t seed);

/// Computes the rank's constants (ParameterRole::constant), which checkpoints do not contain.
void initialize_constants(Executor& executor, std::uint64_t seed);

}  // namespace strata::host
