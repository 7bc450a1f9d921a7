#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Accumulators of one quantity over the micro-batches of a step, one per set of axes over which contributions are
/// partial sums: each contribution is reduced over its own set, never over "the data axes".
using PartialAccumulators = std::map<AxisSet, BufferId>;

/// What partitioning leaves for the step's end.
struct PartitionResult {
  /// By parameter name, in the order in which the backward pass completes them.
  std::vector<std::pair<std::string, PartialAccumulators>> gradients;
  PartialAccumulators loss;
  PartialAccumulators count;
};

/// The element type in which gradients and loss are accumulated.
[[nodiscard]] DType accumulation_type(DType type);

/// Makes the accumulators of loss, count and gradients as the partitioner comes to need them.
class Accumulators {
 public:
  Accumulators(const Graph& graph, const LayoutRules& rules, ProgramBuilder& builder)
      : graph_(graph), rules_(rules), builder_(builder) {}

  /// Where contributions to `sink` that are partial over `partial` are added up.
  BufferId buffer(const Sink& sink, const AxisSet& partial);
  [[nodiscard]] PartitionResult take() { return std::move(result_); }

 private:
  PartialAccumulators& of(const Sink& sink);

  const Graph& graph_;
  const LayoutRules& rules_;
  ProgramBuilder& builder_;
  PartitionResult result_;
};

}  // namespace strata::host
