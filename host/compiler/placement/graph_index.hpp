#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "strata/graph.hpp"

namespace strata::host {

/// What the programs of all stages look up in the graph. It is made once, because each of them has a part of the graph
/// only.
struct GraphIndex {
  /// A node that reads a value, and which operand the value is.
  struct Use {
    const Node* node = nullptr;
    int operand = 0;
  };

  GraphIndex() = default;
  /// Refers to the nodes and sinks of `graph`.
  explicit GraphIndex(const Graph& graph);

  /// The readers of each value that has some, in the order of the graph.
  std::map<Value, std::vector<Use>> uses;
  std::map<Value, std::vector<const Sink*>> sinks;
  /// Position of a node in the graph, by its id.
  std::map<int, std::size_t> position;
  /// Parameters with a gradient.
  std::set<std::string> with_gradient;
};

}  // namespace strata::host
