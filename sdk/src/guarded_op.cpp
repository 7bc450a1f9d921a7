#include "guarded_op.hpp"

#include <limits>
#include <set>
#include <utility>

#include "hook_error.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata {
namespace {

class GuardedOp final : public OpDefinition {
 public:
  GuardedOp(std::unique_ptr<const OpDefinition> inner, const std::string& origin)
      : inner_(std::move(inner)), label_("op '" + inner_->name() + "' of " + origin), lasting_(label_) {}
  ~GuardedOp() override {
    const HookScope scope(lasting_, "destructor");
    inner_.reset();
  }
  GuardedOp(const GuardedOp&) = delete;
  GuardedOp& operator=(const GuardedOp&) = delete;

  std::string name() const override {
    return guard("name", [&] { return inner_->name(); });
  }
  int version() const override {
    return guard("version", [&] { return inner_->version(); });
  }
  std::string documentation() const override {
    return guard("documentation", [&] { return inner_->documentation(); });
  }
  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return guard("infer", [&] { return inner_->infer(graph, node); });
  }
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = guard("iteration", [&] { return inner_->iteration(graph, node); });
    require_dims_of_all(space.operands.size(), node.operands.size(), "operands", node);
    require_dims_of_all(space.results.size(), node.results.size(), "results", node);
    return space;
  }
  GradientRule gradient() const override {
    return guarded_rule("gradient", guard("gradient", [&] { return inner_->gradient(); }));
  }
  Decomposition decomposition() const override {
    return guarded_rule("decomposition", guard("decomposition", [&] { return inner_->decomposition(); }));
  }
  ContinuationRule continuation() const override {
    return guarded_rule("continuation", guard("continuation", [&] { return inner_->continuation(); }));
  }
  std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    auto mixing = guard("mixing", [&] { return inner_->mixing(graph, node); });
    if (mixing) require_iterated(*mixing, iteration(graph, node), node);
    return mixing;
  }
  bool only_chooses(int operand) const override {
    return guard("only_chooses", [&] { return inner_->only_chooses(operand); });
  }
  Cost cost(const Graph& graph, const Node& node) const override {
    const Cost cost = guard("cost", [&] { return inner_->cost(graph, node); });
    // The comparisons are false for NaN.
    const auto is_cost = [](double value) { return value >= 0 && value < std::numeric_limits<double>::infinity(); };
    if (is_cost(cost.flops) && is_cost(cost.bytes)) return cost;
    throw VerificationError(label_ + ": cost gives " + std::to_string(cost.flops) + " flops and " +
                            std::to_string(cost.bytes) + " bytes for node '" + node.name +
                            "'; accepted: finite numbers of at least 0");
  }
  std::vector<int> in_place_operands(int result) const override {
    return guard("in_place_operands", [&] { return inner_->in_place_operands(result); });
  }
  OperandPrecision operand_precision(int operand) const override {
    return guard("operand_precision", [&] { return inner_->operand_precision(operand); });
  }
  bool reads_result(int result) const override {
    return guard("reads_result", [&] { return inner_->reads_result(result); });
  }
  bool keeps_result(int result) const override {
    return guard("keeps_result", [&] { return inner_->keeps_result(result); });
  }
  bool is_product() const override {
    return guard("is_product", [&] { return inner_->is_product(); });
  }
  bool is_sum() const override {
    return guard("is_sum", [&] { return inner_->is_sum(); });
  }
  std::optional<FlatSignature> flat_signature(const Attributes& attributes) const override {
    return guard("flat_signature", [&] { return inner_->flat_signature(attributes); });
  }
  std::vector<FusionPattern> fusions() const override {
    std::vector<FusionPattern> patterns = guard("fusions", [&] { return inner_->fusions(); });
    for (FusionPattern& pattern : patterns) {
      if (!pattern.fit) throw VerificationError(label_ + ": a pattern of fusions has no function 'fit'");
      pattern.fit = [this, fit = std::move(pattern.fit)](const FusionPair& pair) {
        return guard("fusions", [&] { return fit(pair); });
      };
    }
    return patterns;
  }

 private:
  template <class Call>
  auto guard(const char* function, const Call& call) const -> decltype(call()) {
    const HookScope scope(lasting_, function);
    try {
      return call();
    } catch (...) {
      rethrow_from<VerificationError>(label_ + ": hook '" + function + "'");
    }
  }

  template <class Context>
  std::function<void(Context&)> guarded_rule(const char* function, std::function<void(Context&)> rule) const {
    if (!rule) return {};
    return [this, function, rule = std::move(rule)](Context& context) { guard(function, [&] { rule(context); }); };
  }

  void require_dims_of_all(std::size_t found, std::size_t needed, const char* what, const Node& node) const {
    if (found == needed) return;
    throw VerificationError(label_ + ": iteration names the dimensions of " + std::to_string(found) + " " + what +
                            "; node '" + node.name + "' has " + std::to_string(needed));
  }

  void require_iterated(const PositionMixing& mixing, const IterationSpace& space, const Node& node) const {
    const auto refuse = [&](const std::string& what) {
      throw VerificationError(label_ + ": mixing, for node '" + node.name + "', " + what);
    };
    const Dims iterated = space.dims();
    Dims named = mixing.heads;
    named.insert(named.end(), {mixing.queries, mixing.keys});
    for (const Dim& dim : named) {
      if (find_dim(iterated, dim) < 0) {
        refuse("names the dimension '" + dim + "'; accepted: an iteration dimension: " + join(iterated, ", "));
      }
    }
    if (mixing.keys == mixing.queries || !space.whole.contains(mixing.keys)) {
      refuse("has the keys '" + mixing.keys + "'; accepted: a dimension other than that of the queries, which " +
             "IterationSpace::whole has");
    }
    if (mixing.merge != PositionMixing::Merge::log_sum_exp) return;
    if (std::set{mixing.mean, mixing.logarithm} != std::set{0, 1} || node.results.size() != 2) {
      refuse("merges results " + std::to_string(mixing.mean) + " and " + std::to_string(mixing.logarithm) + " of " +
             std::to_string(node.results.size()) + " by log-sum-exp; accepted: the only two results, 0 and 1");
    }
  }

  std::unique_ptr<const OpDefinition> inner_;
  std::string label_;
  LastingText lasting_;
};

}  // namespace

std::unique_ptr<OpDefinition> guarded(std::unique_ptr<OpDefinition> definition, const std::string& origin) {
  if (origin == kCoreOrigin) return definition;
  return std::make_unique<GuardedOp>(std::move(definition), origin);
}

}  // namespace strata
