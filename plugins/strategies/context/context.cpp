/// Context parallelism: every rank along one axis holds another part of every sequence. All ops except attention work
/// on single tokens. For attention there are three methods: move K and V around a ring (Liu et al., "Ring Attention
/// with Blockwise Transformers for Near-Infinite Context", 2023), gather K and V, or exchange tokens for heads (Jacobs
/// et al., "DeepSpeed Ulysses", 2023).

#include "ring_attention.hpp"
#include "strata/strategy.hpp"

namespace context {
namespace {

using namespace strata;

/// Considered after the dimensions of weights, and before sequence parallelism, which only saves memory.
constexpr int kSequencePriority = 20;
/// Considered before the sequence, so that in attention the heads take the axis.
constexpr int kHeadPriority = 15;
/// Considered after the key heads, so that query heads of one key head are split only if key heads cannot be.
constexpr int kGroupPriority = 16;

bool is_attention(const std::string& op) { return op == "attention" || op == "attention_gradient"; }

class ContextParallel final : public Strategy {
 public:
  explicit ContextParallel(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))}, attention_(options.word("attention")) {
    const std::string& balance = options.word("balance");
    // With Ulysses every rank has whole sequences in attention, so a causal mask needs no balancing.
    const bool zigzag = balance == "zigzag" || (balance == "auto" && attention_ != "ulysses");
    distribution_ = zigzag ? Distribution::zigzag : Distribution::block;
  }

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {axis_}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules = {
        {.dim = "seq", .axis = axis_.name, .priority = kSequencePriority, .distribution = distribution_, .filter = {}}};
    if (attention_ == "ulysses") {
      for (const char* heads : {"heads", "kv_heads"}) rules.push_back(attention_rule(heads, kHeadPriority));
      rules.push_back(attention_rule("group", kGroupPriority));
    }
    return rules;
  }

  [[nodiscard]] Lowering lower(const Node& node, const IterationLayout& iteration) const override {
    if (attention_ != "ring" || !is_attention(node.op) || !travels(iteration, axis_.name)) return {};
    return [this](LoweringContext& context) { lower_ring_attention(context, axis_.name); };
  }

 private:
  [[nodiscard]] Rule attention_rule(const Dim& dim, int priority) const {
    return {.dim = dim,
            .axis = axis_.name,
            .priority = priority,
            .distribution = Distribution::block,
            .filter = [](const std::string& op, const Dims& /*dims*/) { return is_attention(op); }};
  }

  MeshAxis axis_;
  std::string attention_;
  Distribution distribution_;
};

class ContextFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<ContextParallel>(options);
  }

 private:
  OptionSchema schema_{
      {.name = "size",
       .type = OptionType::integer,
       .documentation = "Ranks along the axis: parts of every sequence.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "axis",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("cp")),
       .documentation = "Name of the mesh axis."},
      {.name = "attention",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("ring")),
       .documentation =
           "How queries reach the keys of other ranks: ring moves keys around the ranks, all_gather gathers "
           "them, ulysses exchanges tokens for heads by all_to_all.",
       .choices = {"ring", "all_gather", "ulysses"}},
      {.name = "balance",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("auto")),
       .documentation = "How positions are distributed: zigzag gives every rank the same work under a causal mask, "
                        "none gives contiguous runs; auto is none for ulysses and zigzag otherwise.",
       .choices = {"auto", "zigzag", "none"}}};
};

}  // namespace
}  // namespace context

STRATA_PLUGIN(strategy, "context", "0.1.0", "Apache-2.0",
              "Context parallel: the sequence over one axis, with ring, gathered or Ulysses attention.",
              context::ContextFactory);
