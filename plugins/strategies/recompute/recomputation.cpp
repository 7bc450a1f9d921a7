#include "recomputation.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace recompute {
namespace {

using namespace strata;

class Recomputation {
 public:
  Recomputation(Graph& graph, const RecomputationPlan& plan) : graph_(graph), plan_(plan) {}

  void run() {
    group_blocks();
    find_kept_values();
    const std::vector<Node> nodes = graph_.nodes();
    for (Node node : nodes) {
      if (is_backward(node)) {
        for (Value& operand : node.operands) operand = recomputed(operand, group(node.block));
      }
      placed_.push_back(std::move(node));
    }
    graph_.replace_nodes(std::move(placed_));
  }

 private:
  using Group = std::optional<int>;

  static bool is_forward(const Node& node) { return !node.is_leaf() && node.phase == Phase::forward; }
  static bool is_backward(const Node& node) { return !node.is_leaf() && node.phase != Phase::forward; }

  /// Groups the blocks whose results the backward pass reads. An embedding starts no group, because nothing reads its
  /// results.
  void group_blocks() {
    std::set<int> blocks;
    for (const Node& node : graph_.nodes()) {
      if (!is_backward(node)) continue;
      for (const Value& operand : node.operands) {
        const Node& producer = graph_.node(operand.node);
        if (is_forward(producer) && producer.block == node.block) blocks.insert(node.block);
      }
    }
    if (!plan_.last_block) blocks.erase(graph_.block_count() - 1);
    int count = 0;
    for (const int block : blocks) group_of_block_[block] = count++ / plan_.blocks_together;
  }

  [[nodiscard]] Group group(int block) const {
    const auto found = group_of_block_.find(block);
    return found == group_of_block_.end() ? std::nullopt : Group(found->second);
  }

  /// Values that other groups read are stashed, because their recomputation starts from them. Results of the loss are
  /// stashed too, because they are small: one number per token.
  void find_kept_values() {
    for (const Node& node : graph_.nodes()) {
      if (!is_forward(node)) continue;
      for (const Value& operand : node.operands) {
        if (group(graph_.node(operand.node).block) != group(node.block)) kept_.insert(operand);
      }
    }
    for (const Sink& sink : graph_.sinks) {
      if (sink.kind == Sink::Kind::loss) losses_.insert(sink.value.node);
    }
  }

  [[nodiscard]] bool is_recomputed(Value value, int of_group) const {
    const Node& node = graph_.node(value.node);
    return is_forward(node) && group(node.block) == of_group && !kept_.contains(value) && !losses_.contains(node.id) &&
           (plan_.ops.empty() || plan_.ops.contains(node.op));
  }

  /// The value that replaces `value` in the backward pass of a group.
  Value recomputed(Value value, const Group& of_group) {
    if (!of_group || !is_recomputed(value, *of_group)) return value;
    const auto known = clones_.find(value.node);
    return {known != clones_.end() ? known->second : clone(value.node, of_group), value.result};
  }

  int clone(int forward, const Group& of_group) {
    Node node = graph_.node(forward);
    for (Value& operand : node.operands) operand = recomputed(operand, of_group);
    node.phase = Phase::backward;
    node.recomputes = forward;
    node.id = graph_.append(node);
    clones_[forward] = node.id;
    placed_.push_back(node);
    return node.id;
  }

  Graph& graph_;
  const RecomputationPlan& plan_;
  std::map<int, int> group_of_block_;
  std::set<Value> kept_;
  std::set<int> losses_;
  std::map<int, int> clones_;  // by forward node
  std::vector<Node> placed_;
};

}  // namespace

void recompute(Graph& graph, const RecomputationPlan& plan) { Recomputation(graph, plan).run(); }

}  // namespace recompute
