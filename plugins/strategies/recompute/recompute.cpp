/// Recomputation (activation checkpointing): the backward pass recomputes results of the forward pass, so that they
/// need not be stashed (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace recompute {
namespace {

using namespace strata;

/// The values that the backward pass recomputes instead of stashing them.
struct RecomputationPlan {
  /// Number of consecutive blocks that are recomputed together, from the inputs of the first of them.
  int blocks_together = 1;
  /// Ops whose results are recomputed. Empty: all ops.
  std::set<std::string> ops;
  /// False: the last block is not recomputed, because its backward pass starts right after its forward pass.
  bool last_block = false;
};

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

/// Redirects backward nodes from forward nodes to clones of them, for forward nodes in the same group of blocks. Each
/// clone stands right before its first reader. A clone has the forward node's name, so it draws the same random
/// numbers.
void recompute(Graph& graph, const RecomputationPlan& plan) { Recomputation(graph, plan).run(); }

class Recompute final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::word("policy", "full",
                     "What is recomputed: every block from its input, groups of `every` blocks from the first one's "
                     "input, only the results of some `ops`, or nothing.",
                     {"full", "every", "selective", "none"}),
        option::integer("every", 1, 1, 65536, "With policy \"every\": blocks that are recomputed together."),
        {.name = "ops",
         .type = OptionType::words,
         .default_value = OptionValue(std::vector<std::string>{"attention"}),
         .documentation =
             "With policy \"selective\": ops whose results are recomputed from values that the block stashes."},
        option::boolean("last_block", false,
                        "Recompute the last block (the head) too: saves memory only if its backward pass does not "
                        "follow at once, as in a gpipe schedule.")};
  }

  explicit Recompute(const Options& options) {
    const std::string& policy = options.word("policy");
    const auto every = static_cast<int>(options.integer("every"));
    if (policy != "every" && every != 1) {
      throw OptionError("every", "found " + std::to_string(every) + " beside policy = \"" + policy +
                                     "\"; it is for policy = \"every\" only");
    }
    if (policy == "none") return;
    RecomputationPlan plan;
    plan.blocks_together = every;
    plan.last_block = options.boolean("last_block");
    if (policy == "selective") plan.ops = {options.words("ops").begin(), options.words("ops").end()};
    if (policy == "selective" && plan.ops.empty()) throw OptionError("ops", "found none; accepted: names of ops");
    plan_ = std::move(plan);
  }

  void rewrite(Graph& graph, const OpRegistry& registry) const override {
    if (!plan_) return;
    for (const std::string& op : plan_->ops) {
      if (registry.has(op)) continue;
      const std::string similar = nearest(op, registry.names());
      throw OptionError("ops",
                        "there is no op '" + op + "'" + (similar.empty() ? "" : "; did you mean '" + similar + "'?"));
    }
    recompute(graph, *plan_);
  }

 private:
  /// Empty: nothing is recomputed.
  std::optional<RecomputationPlan> plan_;
};

class RecomputeFactory final : public FactoryOf<StrategyFactory, Recompute> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::memory; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& /*context*/) const override {
    return {{{{"policy", "selective"}}}, {{{"policy", "full"}}}};
  }
};

}  // namespace
}  // namespace recompute

STRATA_PLUGIN(strategy, "recompute", "0.1.0", "Apache-2.0",
              "Recomputation: less memory for a repeated forward pass, of whole blocks or of chosen ops.",
              recompute::RecomputeFactory);
