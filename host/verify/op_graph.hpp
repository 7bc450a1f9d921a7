#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// A graph with a single node. Its operands are leaves, and its results are outputs.
struct OpGraph {
  Graph graph;
  /// Name of the leaf of each operand.
  std::vector<std::string> operands;
  /// Name of the output of each result.
  std::vector<std::string> results;
  /// Name of the leaf with each result's gradient. Empty for a result that has none.
  std::vector<std::string> cotangents;
  /// Index of the result that is a loss; -1 if there is none.
  int loss = -1;
  /// Operands that need a gradient.
  std::set<int> differentiated;

  /// Name of the outputs whose sum is the gradient of `operand`.
  [[nodiscard]] std::string gradient(int operand) const { return "gradient of " + operands.at(operand_index(operand)); }

 private:
  [[nodiscard]] static std::size_t operand_index(int operand) { return static_cast<std::size_t>(operand); }
};

/// The graph of `node` alone. `trained`: trained_nodes(graph). Every result that another forward node or a sink of
/// `graph` reads has a gradient.
[[nodiscard]] OpGraph isolate(const Graph& graph, const Node& node, const std::set<int>& trained);

/// Adds the nodes of the op's gradient rule. \throws VerificationError if the op has no gradient, or if the rule emits
/// an invalid graph.
void add_gradients(OpGraph& alone, const OpRegistry& registry);

}  // namespace strata::host
