/// Layouts that are finer than axes: an axis shards other dimensions in some ops than in others. So some layers can be
/// split by heads, and others by samples, over the same ranks (Jia et al., "Beyond Data and Model Parallelism for Deep
/// Neural Networks", MLSys 2019).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layout_rule.hpp"
#include "proposals.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;
using layout::LayoutRule;

/// Considered before the rules of every other strategy, whose axis it may use.
constexpr int kPriority = 1;

class NamedLayout final : public Strategy {
 public:
  static OptionSchema schema() {
    OptionSpecification size = option::axis_size("Ranks along the axis.");
    size.default_value = OptionValue(std::int64_t{1});
    OptionSpecification rules =
        option::words("rules",
                      "Patterns of names of ops and parameters, and the dimensions that the axis shards there, such as "
                      "\"h.0-3, lm_head: heads, ffn\". The first rule that names an op counts.");
    rules.default_value = std::nullopt;
    return {std::move(size), option::axis_name("x"),
            option::word("over", "",
                         "An axis of another strategy, in place of one of its own. The size is 1 then. What no rule "
                         "names stays as the other strategy has it."),
            std::move(rules)};
  }

  explicit NamedLayout(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))}, over_(options.word("over")) {
    if (!over_.empty() && axis_.size != 1) {
      throw OptionError("size",
                        "found " + std::to_string(axis_.size) + "; accepted: 1 with over, whose axis has ranks");
    }
    std::vector<LayoutRule> rules;
    for (const std::string& text : options.words("rules")) rules.push_back(layout::parse_rule(text));
    if (rules.empty()) throw OptionError("rules", "found none; accepted: one or more, such as \"h.0-3: heads, ffn\"");
    rules_ = std::make_shared<const std::vector<LayoutRule>>(std::move(rules));
  }

  [[nodiscard]] std::vector<MeshAxis> axes() const override {
    return over_.empty() ? std::vector<MeshAxis>{axis_} : std::vector<MeshAxis>{};
  }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules;
    for (std::size_t i = 0; i < rules_->size(); ++i) {
      for (const Dim& dim : (*rules_)[i].dims) {
        rules.push_back({.dim = dim,
                         .axis = over_.empty() ? axis_.name : over_,
                         .priority = kPriority,
                         .distribution = Distribution::block,
                         .filter = [all = rules_, i](const RuleTarget& target) {
                           return layout::rule_of(*all, target.name) == i;
                         }});
      }
    }
    return rules;
  }

  /// Without this, a rule with a wrong name would do nothing. A graph without training lacks some ops.
  void rewrite_forward(Graph& graph, const OpRegistry& /*registry*/) const override {
    if (graph.mode == GraphMode::training) layout::require_effect(*rules_, graph, axis_.size);
  }

 private:
  MeshAxis axis_;
  std::string over_;
  std::shared_ptr<const std::vector<LayoutRule>> rules_;
};

class LayoutFactory final : public FactoryOf<StrategyFactory, NamedLayout> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::refinement; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    return layout::propose_rules(context);
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "layout", "0.1.0", "Apache-2.0",
              "Layouts by name: rules say which dimensions an axis shards in which ops.", LayoutFactory);
