#pragma once

#include <vector>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "simulate/simulation.hpp"

namespace strata::host {

/// The programs of all classes with the times of their instructions. The Compiled that was timed outlives it.
struct TimedPrograms {
  std::vector<TimedProgram> programs;
  CorePool pool;
};

/// The time of every instruction of every class on the cluster's devices. If the ranks of a class differ in their
/// device or in their place in the network, the slowest of them counts, because the others wait for it.
[[nodiscard]] TimedPrograms time_programs(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster);

/// FLOPs of products and attention that one rank executes in `step`.
[[nodiscard]] double product_flops(const TimedProgram& timed, std::uint64_t step);

}  // namespace strata::host
