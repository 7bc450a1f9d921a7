/// Context parallelism: every rank along one axis holds another part of every sequence. All ops except those that mix
/// positions, such as attention, work on single tokens. For these there are three methods: move the keys around a ring
/// (Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023), gather them, or exchange
/// tokens for heads (Jacobs et al., "DeepSpeed Ulysses", 2023).

#include <algorithm>
#include <set>
#include <string>

#include "ring_lowering.hpp"
#include "strata/error.hpp"
#include "strata/lowering.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace context {
namespace {

using namespace strata;

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
    return contains(dims, node.mixing()->queries) && contains(dims, node.mixing()->keys);
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

/// Why the keys of a node cannot move around a ring over `axis`, as the end of "it is not possible because". Empty if
/// they can.
std::string ring_obstacle(const NodeToLower& node, const Axis& axis) {
  const PositionMixing* mixing = node.mixing();
  if (mixing == nullptr) return "it does not declare how it mixes positions";
  if (mixing->merge == PositionMixing::Merge::none) return "it declares no merge of results for parts of its keys";
  const std::vector<Axis>& queries = node.iteration().at(mixing->queries);
  if (!contains(queries, axis)) {
    return "its queries along '" + mixing->queries + "' are not split over '" + axis + "'";
  }
  if (has_pairs(node)) return "it has an operand or a result along both queries and keys";
  const std::set<Dim> keys = key_dims(node);
  if (keys.size() != 1) return "its keys lie along " + std::to_string(keys.size()) + " dimensions; accepted: one";
  const Layout layout = node.rules().canonical({*keys.begin()}, node.node().name);
  if (std::find(layout[0].begin(), layout[0].end(), axis) == layout[0].end()) {
    return "its keys along '" + *keys.begin() + "' are not split over '" + axis + "'";
  }
  if (mixing->merge == PositionMixing::Merge::log_sum_exp && !merges_as_attention(node)) {
    return "its results are not laid out as those of attention: [batch queries heads… width], [batch heads… queries]";
  }
  return {};
}

/// Considered after the dimensions of weights, and before sequence parallelism, which only saves memory.
constexpr int kSequencePriority = 20;
/// Considered before the sequence, so that in attention the heads take the axis.
constexpr int kHeadPriority = 15;
/// Considered after the key heads, so that query heads of one key head are split only if key heads cannot be.
constexpr int kGroupPriority = 16;

class ContextParallel final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::axis_size("Ranks along the axis: parts of every sequence."),
        option::axis_name("cp"),
        option::word("attention", "ring",
                     "How queries reach the keys of other ranks: ring moves keys around the ranks, all_gather gathers "
                     "them, ulysses exchanges tokens for heads by all_to_all.",
                     {"ring", "all_gather", "ulysses"}),
        option::word("balance", "auto",
                     "How positions are distributed: zigzag gives every rank the same work under a causal mask, "
                     "none gives contiguous runs; auto is none for ulysses and zigzag otherwise.",
                     {"auto", "zigzag", "none"}),
        {.name = "sequences",
         .type = OptionType::words,
         .default_value = OptionValue(std::vector<std::string>{"seq"}),
         .documentation = "The dimensions along which positions lie, as the model calls them."}};
  }

  explicit ContextParallel(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))},
        attention_(options.word("attention")),
        sequences_(options.words("sequences")) {
    if (sequences_.empty()) throw OptionError("sequences", "found none; accepted: names of dimensions");
    const std::string& balance = options.word("balance");
    // With Ulysses every rank has whole sequences in attention, so a causal mask needs no balancing.
    const bool zigzag = balance == "zigzag" || (balance == "auto" && attention_ != "ulysses");
    distribution_ = zigzag ? Distribution::zigzag : Distribution::block;
  }

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {axis_}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules;
    for (const Dim& sequence : sequences_) {
      rules.push_back({.dim = sequence,
                       .axis = axis_.name,
                       .priority = kSequencePriority,
                       .distribution = distribution_,
                       .filter = {}});
    }
    if (attention_ == "ulysses") {
      for (const char* heads : {"heads", "kv_heads"}) rules.push_back(head_rule(heads, kHeadPriority));
      rules.push_back(head_rule("group", kGroupPriority));
    }
    return rules;
  }

  [[nodiscard]] Lowering lower(NodeToLower& node) const override {
    if (attention_ == "all_gather") return {};
    const std::optional<Dim> gathered = gathered_sequence(node);
    if (!gathered) return {};
    const std::string obstacle = attention_ == "ring" ? ring_obstacle(node, axis_.name) : ulysses_obstacle(node);
    if (obstacle.empty()) return [this](LoweringContext& context) { lower_ring_attention(context, axis_.name); };
    node.note("attention = \"" + attention_ + "\" is not possible for op '" + node.node().op + "' because " + obstacle +
              ", so '" + *gathered + "' is gathered for it");
    return {};
  }

 private:
  /// The sequence of an operand that the partitioner would gather over the axis, because the op needs it whole.
  [[nodiscard]] std::optional<Dim> gathered_sequence(const NodeToLower& node) const {
    if (axis_.size == 1 || (node.mixing() != nullptr && shards_heads(node))) return std::nullopt;
    for (std::size_t i = 0; i < node.node().operands.size(); ++i) {
      const Value operand = node.node().operands[i];
      const Dims& dims = node.graph().type(operand).dims;
      const Layout at_rest = node.rules().canonical(dims, node.graph().node(operand.node).name);
      for (std::size_t at = 0; at < dims.size(); ++at) {
        const bool is_needed_whole = node.space().whole.contains(node.space().operands[i].at(at));
        if (is_needed_whole && contains(sequences_, dims[at]) && contains(at_rest[at], axis_.name)) return dims[at];
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool shards_heads(const NodeToLower& node) const {
    const Dims& heads = node.mixing()->heads;
    return std::any_of(heads.begin(), heads.end(),
                       [&](const Dim& dim) { return contains(node.iteration().at(dim), axis_.name); });
  }

  static std::string ulysses_obstacle(const NodeToLower& node) {
    if (node.mixing() == nullptr) return "it does not declare how it mixes positions";
    const Dims& heads = node.mixing()->heads;
    if (heads.empty()) return "it declares no heads";
    std::vector<std::string> sizes;
    for (const Dim& dim : heads) sizes.push_back(dim + " = " + std::to_string(node.graph().sizes.at(dim)));
    return "the ranks cannot share its heads (" + join(sizes, ", ") + ")";
  }

  /// For ops that split into independent heads along `dim`.
  [[nodiscard]] Rule head_rule(const Dim& dim, int priority) const {
    return {.dim = dim,
            .axis = axis_.name,
            .priority = priority,
            .distribution = Distribution::block,
            .filter = [dim](const RuleTarget& target) {
              return target.mixing != nullptr && contains(target.mixing->heads, dim);
            }};
  }

  MeshAxis axis_;
  std::string attention_;
  std::vector<Dim> sequences_;
  Distribution distribution_;
};

/// Shorter runs of positions leave a rank too little work between two exchanges of keys.
constexpr std::int64_t kLeastPositions = 1024;
constexpr int kMostProposedRanks = 64;

class ContextFactory final : public FactoryOf<StrategyFactory, ContextParallel> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::sequence; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<PlanProposal> found;
    for (const int size : divisors(context.devices, kMostProposedRanks)) {
      // Zigzag deals two runs of positions to each rank.
      if (context.size("seq") % (2 * size) != 0 || context.size("seq") < size * kLeastPositions) continue;
      for (const char* attention : {"ring", "all_gather", "ulysses"}) {
        found.push_back({{{"size", std::int64_t{size}}, {"attention", attention}}, size});
      }
    }
    return found;
  }
};

}  // namespace
}  // namespace context

STRATA_PLUGIN(strategy, "context", "0.1.0", "Apache-2.0",
              "Context parallel: the sequence over one axis, with ring, gathered or Ulysses attention.",
              context::ContextFactory);
