#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "compiler/check/program_check.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "program_sketch.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

/// \file
/// Matching programs of all ranks of a random pipeline × data × tensor mesh. The checks must accept them, and mutants
/// are made from them.

namespace strata::host::test {

/// Strata's own ops and two more. `unary`: x -> y, may work in place. `mix`: x… -> y of the first operand's type.
[[nodiscard]] OpRegistry test_ops();

/// The collective that completes a gradient in the last run of the backward task.
inline constexpr std::uint64_t kCompletionId = 6;

/// One program per stage.
struct RandomRanks {
  Mesh mesh;
  std::vector<Program> stages;

  [[nodiscard]] int stage_of(int rank) const { return mesh.coordinates(rank).at("pp"); }
  /// The programs of all ranks. `replaced` replaces the program of `rank`.
  [[nodiscard]] RankPrograms ranks(int rank = -1, const Program* replaced = nullptr) const;
};

struct RandomRanksOptions {
  int stages = 3;
  int data = 2;
  int tensor = 2;
  int micro_batches = 3;
  /// Approximate number of instructions in the forward and in the backward pass of a stage.
  int steps = 10;
};

[[nodiscard]] RandomRanks make_random_ranks(std::uint32_t seed, const RandomRanksOptions& options = {});

/// Why verify_memory() refuses the plan; empty if it does not.
[[nodiscard]] std::string plan_refusal(const Program& program, const MemoryPlan& plan);

/// The generator's next number in [0, count), equal on every platform.
[[nodiscard]] std::size_t pick(std::mt19937& random, std::size_t count);

}  // namespace strata::host::test
