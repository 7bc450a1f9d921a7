#include "guarded_op.hpp"

#include <utility>

#include "hook_error.hpp"
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
  Cost cost(const Graph& graph, const Node& node) const override {
    return guard("cost", [&] { return inner_->cost(graph, node); });
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
