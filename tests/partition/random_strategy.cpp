#include "random_strategy.hpp"

#include <set>

#include "random_choice.hpp"

namespace strata::testing {
namespace {

const std::vector<Dim> kDims{"batch", "seq",   "heads", "kv_heads", "group", "head_dim",
                             "ffn",   "vocab", "embed", "pos",      "batch", "seq"};
const std::vector<std::string> kOps{"",    "linear", "attention",  "attention_gradient",     "add",
                                    "sum", "pick",   "activation", "cross_entropy_gradient", "layer_norm"};

RuleFilter random_filter(RandomChoice& choice) {
  std::set<std::string> ops;
  for (const std::string& op : kOps) {
    if (choice.flip()) ops.insert(op);
  }
  return [ops](const RuleTarget& target) { return ops.contains(target.op); };
}

}  // namespace

std::string RulesOnly::description() const {
  std::string text;
  for (const MeshAxis& axis : axes_) text += axis.name + "=" + std::to_string(axis.size) + " ";
  for (const Rule& rule : rules_) {
    text += "| " + rule.dim + "->" + rule.axis + " priority " + std::to_string(rule.priority) +
            (rule.distribution == Distribution::zigzag ? " zigzag" : "") + (rule.filter ? " filtered " : " ");
  }
  return text;
}

std::shared_ptr<const RulesOnly> random_strategy(std::uint64_t seed) {
  RandomChoice choice(seed);
  std::vector<MeshAxis> axes;
  std::vector<Rule> rules;
  int ranks = 1;
  for (const char* name : {"a", "b", "c"}) {
    const int size = choice.of<int>({1, 2, 2, 4});
    if (ranks * size > 8) continue;
    ranks *= size;
    axes.push_back({name, size});
    std::set<Dim> dealt;
    for (int i = 1 + choice.below(4); i > 0; --i) {
      Rule rule;
      rule.dim = choice.of(kDims);
      rule.axis = name;
      rule.priority = choice.below(100);
      if (!dealt.insert(rule.dim).second) continue;
      if (rule.dim == "seq" && choice.flip()) rule.distribution = Distribution::zigzag;
      if (choice.below(3) == 0) rule.filter = random_filter(choice);
      rules.push_back(std::move(rule));
    }
  }
  return std::make_shared<RulesOnly>(std::move(axes), std::move(rules),
                                     GradientBuckets{choice.of<std::int64_t>({256, 4096, 1 << 20}), choice.flip()});
}

}  // namespace strata::testing
