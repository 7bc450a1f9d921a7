#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "program_sketch.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

/// \file
/// Programs of all ranks of a random pipeline × data × tensor mesh, made to match: what the checks must accept, and
/// what mutants are made from.

namespace strata::host::test {

/// `unary`: x -> y, may work in place. `mix`: x… -> y of the first operand's type.
[[nodiscard]] OpRegistry test_ops();

/// One program a stage.
struct RandomRanks {
  Mesh mesh;
  std::vector<Program> stages;

  [[nodiscard]] int stage_of(int rank) const { return mesh.coordinates(rank).at("pp"); }
  /// All ranks' programs; `replaced` stands in for that of `rank`.
  [[nodiscard]] RankPrograms ranks(int rank = -1, const Program* replaced = nullptr) const;
};

struct RandomRanksOptions {
  int stages = 3;
  int data = 2;
  int tensor = 2;
  int micro_batches = 3;
  /// About how many steps the forward and the backward pass of a stage have.
  int steps = 10;
};

[[nodiscard]] RandomRanks make_random_ranks(std::uint32_t seed, const RandomRanksOptions& options = {});

/// The next of the generator's numbers in [0, count): the same on every platform.
[[nodiscard]] std::size_t pick(std::mt19937& random, std::size_t count);

}  // namespace strata::host::test
