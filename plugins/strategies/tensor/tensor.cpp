/// Tensor parallelism: one axis shards attention heads, feed-forward columns and vocabulary rows (Shoeybi et al.,
/// "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019). With sequence
/// parallelism the same axis shards tokens between these layers (Korthikanti et al., "Reducing Activation Recomputation
/// in Large Transformer Models", MLSys 2023).

#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;

/// Considered before other strategies' rules. Sharding a dimension of weights also shrinks memory at rest, which
/// sharding a dimension of activations does not.
constexpr int kWeightPriority = 10;
/// Considered after the key heads, so that query heads of one key head are split only if key heads cannot be.
constexpr int kGroupPriority = 11;
/// Considered last: tokens are sharded only in ops without any of the dimensions above.
constexpr int kSequencePriority = 90;

class TensorParallel final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::axis_size("Ranks along the axis: parts of every layer."),
        option::axis_name("tp"),
        option::boolean("sequence_parallel", false,
                        "Split norms, residuals and dropout, which the axis does not split otherwise, by tokens: less "
                        "memory for the same traffic."),
        option::boolean("vocab_parallel", true,
                        "Split the embedding, the head and the cross-entropy over the vocabulary."),
        {.name = "sequences",
         .type = OptionType::words,
         .default_value = OptionValue(std::vector<std::string>{"seq"}),
         .documentation = "The dimensions along which sequence_parallel splits tokens, as the model calls them."},
        option::integer("overlap_chunks", 1, 1, 64,
                        "Split collectives over the axis and the matrix products next to them into this many chunks "
                        "along the micro-batch, so that communication and computation overlap; 1: no split.")};
  }

  explicit TensorParallel(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))},
        sequence_parallel_(options.boolean("sequence_parallel")),
        vocab_parallel_(options.boolean("vocab_parallel")),
        sequences_(options.words("sequences")),
        overlap_chunks_(static_cast<int>(options.integer("overlap_chunks"))) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {axis_}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules = {rule("heads", kWeightPriority), rule("kv_heads", kWeightPriority),
                               rule("ffn", kWeightPriority), rule("shared_ffn", kWeightPriority),
                               rule("group", kGroupPriority)};
    // Channels within the residual blocks of the stages of a convolutional model.
    for (const char* channels : {"inner1", "inner2", "inner3", "inner4"}) {
      rules.push_back(rule(channels, kWeightPriority));
    }
    if (vocab_parallel_) rules.push_back(rule("vocab", kWeightPriority));
    if (!sequence_parallel_) return rules;
    for (const Dim& sequence : sequences_) rules.push_back(rule(sequence, kSequencePriority));
    return rules;
  }

  [[nodiscard]] std::optional<ChunkedOverlap> chunked_overlap() const override {
    if (overlap_chunks_ == 1) return std::nullopt;
    return ChunkedOverlap{axis_.name, overlap_chunks_};
  }

 private:
  [[nodiscard]] Rule rule(const Dim& dim, int priority) const {
    return {.dim = dim, .axis = axis_.name, .priority = priority, .distribution = Distribution::block, .filter = {}};
  }

  MeshAxis axis_;
  bool sequence_parallel_;
  bool vocab_parallel_;
  std::vector<Dim> sequences_;
  int overlap_chunks_;
};

class TensorFactory final : public FactoryOf<StrategyFactory, TensorParallel> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::tensors; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<PlanProposal> found;
    // Twice as many ranks as a node has show what the network between nodes costs.
    for (const int size : divisors(context.devices, 2 * context.devices_per_node)) {
      if (context.size("heads") % size != 0 && context.size("ffn") % size != 0) continue;
      for (const bool is_sequence_parallel : {true, false}) {
        found.push_back({{{"size", std::int64_t{size}}, {"sequence_parallel", is_sequence_parallel}}, size});
      }
    }
    return found;
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "tensor", "0.1.0", "Apache-2.0",
              "Tensor parallel: heads, feed-forward and vocabulary over one axis, with sequence parallelism.",
              TensorFactory);
