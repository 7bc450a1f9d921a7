/// Layouts that are finer than axes: an axis shards other dimensions in some ops than in others. So some layers can be
/// split by heads, and others by samples, over the same ranks (Jia et al., "Beyond Data and Model Parallelism for Deep
/// Neural Networks", MLSys 2019).

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "layout_rule.hpp"
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

/// Patterns of the parts of a model: all, halves of each row of numbered layers, and modules within all layers.
std::vector<std::string> patterns_of_parts(const Graph& graph) {
  std::map<std::string, long> last_layer;  // by the name before the number
  std::set<std::string> modules;
  for (const Node& node : graph.nodes()) {
    const std::vector<std::string> parts = layout::parts_of(node.name);
    const auto number = std::find_if(parts.begin(), parts.end(), layout::is_number);
    if (node.is_leaf() || number == parts.begin() || number == parts.end()) continue;
    const std::string before = join({parts.begin(), number}, ".");
    long& last = last_layer[before];
    last = std::max(last, std::stol(*number));
    if (parts.end() - number > 2) modules.insert(before + ".*." + *(number + 1));
  }
  std::vector<std::string> patterns{"*"};
  for (const auto& [before, last] : last_layer) {
    if (last == 0) continue;
    const long half = (last + 1) / 2;
    patterns.push_back(before + ".0-" + std::to_string(half - 1));
    patterns.push_back(before + "." + std::to_string(half) + "-" + std::to_string(last));
  }
  patterns.insert(patterns.end(), modules.begin(), modules.end());
  return patterns;
}

/// By dimension, the positions of the nodes that a pattern names and that have the dimension.
std::map<Dim, std::vector<std::size_t>> named_nodes(const Graph& graph, const std::string& text) {
  const layout::NamePattern pattern(text);
  std::map<Dim, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.is_leaf() || !pattern.names(layout::parts_of(node.name))) continue;
    for (const Dim& dim : layout::dims_of(graph, node)) found[dim].push_back(i);
  }
  return found;
}

/// Rules over an axis of the plan that are worth a try: each dimension, in the whole model, in either half of its
/// layers, or in one module of all layers.
std::vector<PlanProposal> propose_rules(const PlanningContext& context) {
  std::vector<PlanProposal> proposals;
  if (context.graph == nullptr) return proposals;
  std::set<std::pair<Dim, std::vector<std::size_t>>> seen;  // two patterns may name the same ops
  for (const std::string& pattern : patterns_of_parts(*context.graph)) {
    for (const auto& [dim, nodes] : named_nodes(*context.graph, pattern)) {
      if ((dim != "batch" && context.size(dim) == 1) || !seen.emplace(dim, nodes).second) continue;
      for (const auto& [axis, purpose] : context.axes) {
        if (purpose == PlanPurpose::stages || (purpose == PlanPurpose::replicas && dim == "batch")) continue;
        proposals.push_back({{{"over", axis}, {"rules", std::vector<std::string>{pattern + ": " + dim}}}, 1});
      }
    }
  }
  return proposals;
}

class LayoutFactory final : public FactoryOf<StrategyFactory, NamedLayout> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::refinement; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    return propose_rules(context);
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "layout", "0.1.0", "Apache-2.0",
              "Layouts by name: rules say which dimensions an axis shards in which ops.", LayoutFactory);
