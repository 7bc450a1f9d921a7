#include "proposals.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "layout_rule.hpp"
#include "strata/error.hpp"

namespace strata::layout {
namespace {

/// Patterns of the parts of a model: all, halves of each row of numbered layers, and modules within all layers.
std::vector<std::string> patterns_of_parts(const Graph& graph) {
  std::map<std::string, long> last_layer;  // by the name before the number
  std::set<std::string> modules;
  for (const Node& node : graph.nodes()) {
    const std::vector<std::string> parts = parts_of(node.name);
    const auto number = std::find_if(parts.begin(), parts.end(), is_number);
    if (node.is_leaf() || number == parts.begin() || number == parts.end()) continue;
    const std::string before = join({parts.begin(), number}, ".");
    long& last = last_layer[before];
    last = std::max(last, std::stol(*number));
    if (parts.end() - number > 2) modules.insert(before + ".*." + *(number + 1));
  }
  std::vector<std::string> patterns{"*"};
  for (const auto& [before, last] : last_layer) {
    if (last == 0) continue;
    const long half = (last + 1) / 2;
    patterns.push_back(before + ".0-" + std::to_string(half - 1));
    patterns.push_back(before + "." + std::to_string(half) + "-" + std::to_string(last));
  }
  patterns.insert(patterns.end(), modules.begin(), modules.end());
  return patterns;
}

/// By dimension, the positions of the nodes that a pattern names and that have the dimension.
std::map<Dim, std::vector<std::size_t>> named_nodes(const Graph& graph, const std::string& text) {
  const NamePattern pattern(text);
  std::map<Dim, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.is_leaf() || !pattern.names(parts_of(node.name))) continue;
    for (const Dim& dim : dims_of(graph, node)) found[dim].push_back(i);
  }
  return found;
}

}  // namespace

std::vector<PlanProposal> propose_rules(const PlanningContext& context) {
  std::vector<PlanProposal> proposals;
  if (context.graph == nullptr) return proposals;
  std::set<std::pair<Dim, std::vector<std::size_t>>> seen;  // two patterns may name the same ops
  for (const std::string& pattern : patterns_of_parts(*context.graph)) {
    for (const auto& [dim, nodes] : named_nodes(*context.graph, pattern)) {
      if ((dim != "batch" && context.size(dim) == 1) || !seen.emplace(dim, nodes).second) continue;
      for (const auto& [axis, purpose] : context.axes) {
        if (purpose == PlanPurpose::stages || (purpose == PlanPurpose::replicas && dim == "batch")) continue;
        proposals.push_back({{{"over", axis}, {"rules", std::vector<std::string>{pattern + ": " + dim}}}, 1});
      }
    }
  }
  return proposals;
}

}  // namespace strata::layout
