#include "ring_obstacle.hpp"

#include <algorithm>
#include <set>

namespace context {

using namespace strata;

namespace {

/// The dimensions of the operands that lie along the keys.
std::set<Dim> key_dims(const NodeToLower& node) {
  std::set<Dim> dims;
  for (std::size_t i = 0; i < node.node().operands.size(); ++i) {
    const int at = find_dim(node.space().operands[i], node.mixing()->keys);
    if (at >= 0) dims.insert(node.graph().type(node.node().operands[i]).dims.at(static_cast<std::size_t>(at)));
  }
  return dims;
}

/// True if an operand or result has a value for each pair of a query and a key.
bool has_pairs(const NodeToLower& node) {
  const auto of_pairs = [&](const Dims& dims) {
    return find_dim(dims, node.mixing()->queries) >= 0 && find_dim(dims, node.mixing()->keys) >= 0;
  };
  const IterationSpace& space = node.space();
  return std::any_of(space.operands.begin(), space.operands.end(), of_pairs) ||
         std::any_of(space.results.begin(), space.results.end(), of_pairs);
}

/// True if `attention_merge` takes the results: the mean [batch queries heads… width], the logarithm [batch heads…
/// queries].
bool merges_as_attention(const NodeToLower& node) {
  const PositionMixing& mixing = *node.mixing();
  const Dims& mean = node.space().results.at(static_cast<std::size_t>(mixing.mean));
  if (mean.size() < 3 || mean[1] != mixing.queries) return false;
  Dims expected{mean.front()};
  expected.insert(expected.end(), mean.begin() + 2, mean.end() - 1);
  expected.push_back(mixing.queries);
  return node.space().results.at(static_cast<std::size_t>(mixing.logarithm)) == expected;
}

}  // namespace

std::string ring_obstacle(const NodeToLower& node, const Axis& axis) {
  const PositionMixing* mixing = node.mixing();
  if (mixing == nullptr) return "it does not declare how it mixes positions";
  if (mixing->merge == PositionMixing::Merge::none) return "it declares no merge of results for parts of its keys";
  const std::vector<Axis>& queries = node.iteration().at(mixing->queries);
  if (std::find(queries.begin(), queries.end(), axis) == queries.end()) {
    return "its queries along '" + mixing->queries + "' are not split over '" + axis + "'";
  }
  if (has_pairs(node)) return "it has an operand or a result along both queries and keys";
  const std::set<Dim> keys = key_dims(node);
  if (keys.size() != 1) return "its keys lie along " + std::to_string(keys.size()) + " dimensions; accepted: one";
  const Layout layout = node.rules().canonical({*keys.begin()});
  if (std::find(layout[0].begin(), layout[0].end(), axis) == layout[0].end()) {
    return "its keys along '" + *keys.begin() + "' are not split over '" + axis + "'";
  }
  if (mixing->merge == PositionMixing::Merge::log_sum_exp && !merges_as_attention(node)) {
    return "its results are not laid out as those of attention: [batch queries heads… width], [batch heads… queries]";
  }
  return {};
}

}  // namespace context
