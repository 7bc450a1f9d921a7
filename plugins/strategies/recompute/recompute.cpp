/// Recomputation (activation checkpointing): the backward pass recomputes results of the forward pass, so that they
/// need not be stashed (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).

#include "recomputation.hpp"
#include "strata/error.hpp"
#include "strata/strategy.hpp"

namespace recompute {
namespace {

using namespace strata;

class Recompute final : public Strategy {
 public:
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

class RecomputeFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Recompute>(options);
  }

 private:
  OptionSchema schema_{
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
};

}  // namespace
}  // namespace recompute

STRATA_PLUGIN(strategy, "recompute", "0.1.0", "Apache-2.0",
              "Recomputation: less memory for a repeated forward pass, of whole blocks or of chosen ops.",
              recompute::RecomputeFactory);
