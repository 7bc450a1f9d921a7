/// Expert parallelism: one axis shards the experts of every block (Lepikhin et al., "GShard: Scaling Giant Models with
/// Conditional Computation and Automatic Sharding", ICLR 2021). In all other ops it shards samples, as data parallelism
/// does. So the axis gathers the tokens before the experts, and reduces their results to the ranks of the tokens.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;

/// Considered first: experts have most of the memory at rest.
constexpr int kExpertPriority = 5;
/// Considered after the experts, in ops that have none.
constexpr int kSamplePriority = 50;
/// Few enough that each part still fills a device.
constexpr int kProposedChunks = 4;

/// True for the matrices of experts, and for ops that multiply by them. The router, whose rows have one element for
/// each expert, has no inner width.
bool has_experts(const RuleTarget& target) { return contains(target.dims, "ffn"); }

class ExpertParallel final : public Strategy {
 public:
  static OptionSchema schema() {
    OptionSpecification size = option::axis_size("Ranks along the axis: parts of the experts of every block.");
    size.default_value = OptionValue(std::int64_t{1});
    return {std::move(size), option::axis_name("ep"),
            option::word("over", "",
                         "An axis of another strategy that shards the experts, in place of one of its own: tp shards "
                         "attention by heads and experts by expert. The size is 1 then."),
            option::integer("chunks", 1, 1, 64,
                            "Parts of a rank's tokens that travel to the experts one after the other: while one part "
                            "travels, another is computed, and gathered tokens take two parts of their memory. 1: no "
                            "parts.")};
  }

  explicit ExpertParallel(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))},
        over_(options.word("over")),
        chunks_(static_cast<int>(options.integer("chunks"))) {
    if (over_.empty() || axis_.size == 1) return;
    throw OptionError("size", "found " + std::to_string(axis_.size) + "; accepted: 1 with over, whose axis has ranks");
  }

  [[nodiscard]] std::vector<MeshAxis> axes() const override {
    return over_.empty() ? std::vector<MeshAxis>{axis_} : std::vector<MeshAxis>{};
  }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules = {{.dim = "expert",
                                .axis = over_.empty() ? axis_.name : over_,
                                .priority = kExpertPriority,
                                .distribution = Distribution::block,
                                .filter = has_experts}};
    if (over_.empty()) {
      rules.push_back({.dim = "batch",
                       .axis = axis_.name,
                       .priority = kSamplePriority,
                       .distribution = Distribution::block,
                       .filter = {}});
    }
    return rules;
  }

  [[nodiscard]] std::optional<ChunkedOverlap> chunked_overlap() const override {
    if (chunks_ == 1) return std::nullopt;
    return ChunkedOverlap{over_.empty() ? axis_.name : over_, chunks_};
  }

  /// Without this, the axis would shard samples alone, and say nothing.
  void rewrite_forward(Graph& graph, const OpRegistry& /*registry*/) const override {
    const auto experts = graph.sizes.find("expert");
    if (experts == graph.sizes.end()) {
      throw OptionError("size", "the model has no dimension 'expert'; accepted: a model with experts, such as mixture");
    }
    if (experts->second % axis_.size == 0) return;
    std::vector<std::string> accepted;
    for (std::int64_t size = 1; size <= experts->second; ++size) {
      if (experts->second % size == 0) accepted.push_back(std::to_string(size));
    }
    throw OptionError("size", "found " + std::to_string(axis_.size) + "; accepted: a divisor of the model's " +
                                  std::to_string(experts->second) + " experts: " + join(accepted, ", "));
  }

 private:
  MeshAxis axis_;
  std::string over_;
  int chunks_;
};

class ExpertFactory final : public FactoryOf<StrategyFactory, ExpertParallel> {
 public:
  /// Outside of the experts the axis deals samples, so its ranks share the dense parameters. Storage may be sharded
  /// over them, as over those that share a sequence.
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::sequence; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<PlanProposal> found;
    const std::int64_t experts = context.size("expert");
    for (const int size : divisors(context.devices, static_cast<int>(std::min(experts, context.global_batch)))) {
      if (experts % size != 0) continue;
      for (const int chunks : size == 1 ? std::vector<int>{1} : std::vector<int>{1, kProposedChunks}) {
        found.push_back({{{"size", std::int64_t{size}}, {"chunks", std::int64_t{chunks}}}, size});
      }
    }
    return found;
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "expert", "0.1.0", "Apache-2.0",
              "Expert parallel: the experts of every block over one axis, which shards samples elsewhere.",
              ExpertFactory);
