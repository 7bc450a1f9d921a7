#include "plan/alike_blocks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/placement/rule_filters.hpp"

namespace strata::host {
namespace {

/// Where a node reads an operand, as seen from its block.
struct Source {
  enum class Kind : std::uint8_t {
    own,        ///< a node of the block, by its place there
    previous,   ///< a node of the block before, by its place there
    parameter,  ///< a parameter that only this block reads, by the order of the first reads
    shared      ///< anything else, by its id
  };
  Kind kind = Kind::shared;
  int number = 0;
  int result = 0;
  TensorType type;
  std::vector<bool> filters_at_rest;

  bool operator==(const Source&) const = default;
};

/// All that must be equal in alike blocks.
struct BlockShape {
  std::vector<std::string> ops;
  std::vector<Phase> phases;
  std::vector<Attributes> attributes;
  std::vector<std::vector<TensorType>> results;
  std::vector<std::vector<bool>> filters;
  std::vector<std::vector<Source>> sources;
  /// Roles of the parameters that only this block reads.
  std::vector<ParameterRole> roles;

  bool operator==(const BlockShape&) const = default;
};

class BlockShapes {
 public:
  BlockShapes(const Graph& graph, const OpRegistry& registry, const std::vector<Rule>& rules)
      : graph_(graph), registry_(registry), rules_(rules) {
    std::vector<int> sizes(static_cast<std::size_t>(graph.block_count()));
    for (const Node& node : graph.nodes()) {
      if (node.block >= 0) place_[node.id] = sizes[static_cast<std::size_t>(node.block)]++;
      for (const Value& operand : node.operands) {
        readers_[operand].insert(node.block);
        readers_of_node_[operand.node].insert(node.block);
      }
    }
    for (const Parameter& parameter : graph.parameters) roles_[parameter.value] = parameter.role;
  }

  /// By block.
  [[nodiscard]] std::vector<BlockShape> shapes() const {
    std::vector<BlockShape> shapes(static_cast<std::size_t>(graph_.block_count()));
    std::map<Value, int> order;  // of a block's own parameters
    for (const Node& node : graph_.nodes()) {
      if (node.block < 0) continue;
      BlockShape& shape = shapes[static_cast<std::size_t>(node.block)];
      shape.ops.push_back(node.op);
      shape.phases.push_back(node.phase);
      shape.attributes.push_back(node.attributes);
      shape.results.push_back(node.results);
      shape.filters.push_back(filter_answers(rules_, registry_, graph_, node));
      std::vector<Source>& sources = shape.sources.emplace_back();
      for (const Value& operand : node.operands) sources.push_back(source(operand, node.block, shape, order));
    }
    return shapes;
  }

  /// True if nothing but the next block reads values of the block.
  [[nodiscard]] bool is_read_by_next_only(int block) const {
    return std::ranges::all_of(graph_.nodes(), [&](const Node& node) {
      const auto found = readers_of_node_.find(node.id);
      if (node.block != block || found == readers_of_node_.end()) return true;
      return std::ranges::all_of(found->second, [&](int reader) { return reader == block || reader == block + 1; });
    });
  }

 private:
  Source source(const Value& operand, int block, BlockShape& shape, std::map<Value, int>& order) const {
    const Node& node = graph_.node(operand.node);
    Source source{Source::Kind::shared, operand.node, operand.result, graph_.type(operand),
                  filter_answers(rules_, graph_, operand)};
    const auto role = roles_.find(operand);
    if (node.block >= 0 && node.block >= block - 1) {
      source.kind = node.block == block ? Source::Kind::own : Source::Kind::previous;
      source.number = place_.at(node.id);
    } else if (role != roles_.end() && readers_.at(operand).size() == 1) {
      source.kind = Source::Kind::parameter;
      const auto [known, added] = order.try_emplace(operand, static_cast<int>(shape.roles.size()));
      if (added) shape.roles.push_back(role->second);
      source.number = known->second;
    }
    return source;
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const std::vector<Rule>& rules_;
  std::map<int, int> place_;  // of a node in its block
  std::map<Value, std::set<int>> readers_;
  std::map<int, std::set<int>> readers_of_node_;
  std::map<Value, ParameterRole> roles_;
};

/// Nodes of a block in order.
std::vector<const Node*> nodes_of(const Graph& graph, int block) {
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes()) {
    if (node.block == block) nodes.push_back(&node);
  }
  return nodes;
}

}  // namespace

AlikeBlocks find_alike_blocks(const Graph& graph, const OpRegistry& registry, const std::vector<Rule>& rules) {
  const BlockShapes blocks(graph, registry, rules);
  const std::vector<BlockShape> shapes = blocks.shapes();
  AlikeBlocks longest;
  for (std::size_t first = 0; first < shapes.size();) {
    std::size_t end = first + 1;
    while (end < shapes.size() && shapes[end] == shapes[first]) ++end;
    AlikeBlocks run{static_cast<int>(first), static_cast<int>(end - first)};
    for (int i = run.first; i < run.first + run.count; ++i) {
      if (!blocks.is_read_by_next_only(i)) run.count = 0;
    }
    if (run.count > longest.count) longest = run;
    first = end;
  }
  return longest;
}

bool tell_apart_alike_blocks(const Graph& graph, const OpRegistry& registry, const std::vector<Rule>& rules) {
  const std::vector<BlockShape> plain = BlockShapes(graph, registry, {}).shapes();
  const std::vector<BlockShape> filtered = BlockShapes(graph, registry, rules).shapes();
  for (std::size_t i = 1; i < plain.size(); ++i) {
    if (plain[i] == plain[i - 1] && filtered[i] != filtered[i - 1]) return true;
  }
  return false;
}

Graph without_blocks(const Graph& graph, const AlikeBlocks& alike, int left_out) {
  const int end = alike.first + alike.count;
  const int begin = end - left_out;
  const auto is_left_out = [&](const Node& node) { return node.block >= begin && node.block < end; };
  std::map<int, int> instead;  // node of the last block, node of the last that stays
  const std::vector<const Node*> last = nodes_of(graph, end - 1);
  const std::vector<const Node*> kept = nodes_of(graph, begin - 1);
  for (std::size_t i = 0; i < last.size(); ++i) instead[last[i]->id] = kept[i]->id;

  std::set<int> read;
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes()) {
    if (is_left_out(node)) continue;
    Node& copy = nodes.emplace_back(node);
    if (copy.block >= end) copy.block -= left_out;
    for (Value& operand : copy.operands) {
      const auto other = left_out > 0 ? instead.find(operand.node) : instead.end();
      if (other != instead.end()) operand.node = other->second;
      read.insert(operand.node);
    }
  }
  Graph shorter = graph;
  std::erase_if(shorter.sinks, [&](const Sink& sink) { return is_left_out(graph.node(sink.value.node)); });
  for (const Sink& sink : shorter.sinks) read.insert(sink.value.node);
  std::set<int> was_read;
  for (const Node& node : graph.nodes()) {
    for (const Value& operand : node.operands) was_read.insert(operand.node);
  }
  const auto is_unread = [&](int node) { return was_read.contains(node) && !read.contains(node); };
  std::erase_if(nodes, [&](const Node& node) { return node.is_leaf() && is_unread(node.id); });
  std::erase_if(shorter.parameters, [&](const Parameter& parameter) { return is_unread(parameter.value.node); });
  shorter.replace_nodes(std::move(nodes));
  return shorter;
}

}  // namespace strata::host
