#pragma once

#include <vector>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "simulate/network_cost.hpp"
#include "simulate/simulation.hpp"

namespace strata::host {

/// FLOPs of products and attention that one rank executes in a step, by program.
struct TimedPrograms {
  std::vector<TimedProgram> programs;
  std::vector<double> flops;
  CorePool pool;
};

/// The time of every instruction of every class on the cluster's devices. If the ranks of a class differ in their
/// device or in their place in the network, the slowest of them counts, because the others wait for it. `step` chooses
/// the instructions whose FLOPs count.
[[nodiscard]] TimedPrograms time_programs(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster,
                                          std::uint64_t step);

}  // namespace strata::host
