#include "strata/op.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "hook_error.hpp"
#include "strata/error.hpp"
#include "strata/options.hpp"
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

  std::string name() const override { return ask<&OpDefinition::name>("name"); }
  int version() const override { return ask<&OpDefinition::version>("version"); }
  std::string documentation() const override { return ask<&OpDefinition::documentation>("documentation"); }
  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return ask<&OpDefinition::infer>("infer", graph, node);
  }
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = ask<&OpDefinition::iteration>("iteration", graph, node);
    require_dims_of_all(space.operands.size(), node.operands.size(), "operands", node);
    require_dims_of_all(space.results.size(), node.results.size(), "results", node);
    return space;
  }
  GradientRule gradient() const override { return guarded_rule("gradient", ask<&OpDefinition::gradient>("gradient")); }
  Decomposition decomposition() const override {
    return guarded_rule("decomposition", ask<&OpDefinition::decomposition>("decomposition"));
  }
  ContinuationRule continuation() const override {
    return guarded_rule("continuation", ask<&OpDefinition::continuation>("continuation"));
  }
  std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    auto mixing = ask<&OpDefinition::mixing>("mixing", graph, node);
    if (mixing) require_iterated(*mixing, iteration(graph, node), node);
    return mixing;
  }
  bool only_chooses(int operand) const override { return ask<&OpDefinition::only_chooses>("only_chooses", operand); }
  Cost cost(const Graph& graph, const Node& node) const override {
    const Cost cost = ask<&OpDefinition::cost>("cost", graph, node);
    // The comparisons are false for NaN.
    const auto is_cost = [](double value) { return value >= 0 && value < std::numeric_limits<double>::infinity(); };
    if (is_cost(cost.flops) && is_cost(cost.bytes)) return cost;
    throw VerificationError(label_ + ": cost gives " + std::to_string(cost.flops) + " flops and " +
                            std::to_string(cost.bytes) + " bytes for node '" + node.name +
                            "'; accepted: finite numbers of at least 0");
  }
  std::vector<int> in_place_operands(int result) const override {
    return ask<&OpDefinition::in_place_operands>("in_place_operands", result);
  }
  OperandPrecision operand_precision(int operand) const override {
    return ask<&OpDefinition::operand_precision>("operand_precision", operand);
  }
  bool reads_result(int result) const override { return ask<&OpDefinition::reads_result>("reads_result", result); }
  bool keeps_result(int result) const override { return ask<&OpDefinition::keeps_result>("keeps_result", result); }
  bool is_product() const override { return ask<&OpDefinition::is_product>("is_product"); }
  bool is_sum() const override { return ask<&OpDefinition::is_sum>("is_sum"); }
  std::optional<RoutedRows> routed_rows() const override { return ask<&OpDefinition::routed_rows>("routed_rows"); }
  std::optional<FlatSignature> flat_signature(const Attributes& attributes) const override {
    return ask<&OpDefinition::flat_signature>("flat_signature", attributes);
  }
  std::vector<FusionPattern> fusions() const override {
    std::vector<FusionPattern> patterns = ask<&OpDefinition::fusions>("fusions");
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

  template <auto kFunction, class... Arguments>
  std::invoke_result_t<decltype(kFunction), const OpDefinition&, const Arguments&...> ask(
      const char* function, const Arguments&... arguments) const {
    return guard(function, [&] { return std::invoke(kFunction, *inner_, arguments...); });
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
      if (!contains(iterated, dim)) {
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

/// Wraps an op so that errors name it. Exceptions of its functions that are not Strata's become a VerificationError
/// with the op, the plugin and the function. Strata's own ops are returned unchanged.
std::unique_ptr<OpDefinition> guarded(std::unique_ptr<OpDefinition> definition, const std::string& origin) {
  if (origin == kCoreOrigin) return definition;
  return std::make_unique<GuardedOp>(std::move(definition), origin);
}

}  // namespace

Dims IterationSpace::dims() const {
  Dims all;
  for (const auto* group : {&operands, &results}) {
    for (const Dims& dims : *group) {
      for (const Dim& dim : dims) {
        if (!contains(all, dim)) all.push_back(dim);
      }
    }
  }
  return all;
}

GradientContext::~GradientContext() = default;

void GradientContext::require_dims_of_operand(int index, Value gradient) const {
  const TensorType& found = graph().type(gradient);
  const TensorType& wanted = graph().type(operand(index));
  if (found.dims == wanted.dims) return;
  throw VerificationError("the gradient rule of op '" + node().op + "' gives operand " + std::to_string(index) +
                          ", which is " + to_string(wanted) + ", a gradient " + to_string(found));
}

DecomposeContext::~DecomposeContext() = default;
ContinuationContext::~ContinuationContext() = default;
OpDefinition::~OpDefinition() = default;

IterationSpace OpDefinition::iteration(const Graph& graph, const Node& node) const {
  IterationSpace space;
  for (const Value& operand : node.operands) space.operands.push_back(graph.type(operand).dims);
  for (const TensorType& result : node.results) space.results.push_back(result.dims);
  return space;
}

GradientRule OpDefinition::gradient() const { return {}; }
Decomposition OpDefinition::decomposition() const { return {}; }
ContinuationRule OpDefinition::continuation() const { return {}; }
std::optional<PositionMixing> OpDefinition::mixing(const Graph& /*graph*/, const Node& /*node*/) const {
  return std::nullopt;
}
bool OpDefinition::only_chooses(int /*operand*/) const { return false; }
int OpDefinition::version() const { return 1; }
bool OpDefinition::reads_result(int /*result*/) const { return false; }
bool OpDefinition::keeps_result(int /*result*/) const { return false; }
bool OpDefinition::is_product() const { return false; }
bool OpDefinition::is_sum() const { return false; }
std::optional<RoutedRows> OpDefinition::routed_rows() const { return std::nullopt; }
std::optional<FlatSignature> OpDefinition::flat_signature(const Attributes& /*attributes*/) const {
  return std::nullopt;
}
std::vector<FusionPattern> OpDefinition::fusions() const { return {}; }

Cost OpDefinition::cost(const Graph& graph, const Node& node) const {
  Cost cost;
  for (const Value& operand : node.operands) {
    cost.bytes += static_cast<double>(element_count(graph.shape(operand))) *
                  static_cast<double>(size_of(graph.type(operand).dtype));
  }
  for (const TensorType& result : node.results) {
    const auto elements = static_cast<double>(element_count(shape_of(result.dims, graph.sizes)));
    cost.bytes += elements * static_cast<double>(size_of(result.dtype));
    cost.flops = std::max(cost.flops, elements);
  }
  return cost;
}

OperandPrecision OpDefinition::operand_precision(int /*operand*/) const { return OperandPrecision::unchanged; }

std::vector<int> OpDefinition::in_place_operands(int /*result*/) const { return {}; }

OpRegistry::OpRegistry() = default;
OpRegistry::~OpRegistry() = default;
OpRegistry::OpRegistry(OpRegistry&&) noexcept = default;
OpRegistry& OpRegistry::operator=(OpRegistry&&) noexcept = default;

void OpRegistry::add(std::unique_ptr<OpDefinition> definition, const std::string& origin) {
  if (definition == nullptr) throw ConfigurationError(origin + " registers an op without a definition");
  const std::string name = definition->name();
  if (const auto known = entries_.find(name); known != entries_.end()) {
    const int version = known->second.definition->version();
    if (version == definition->version()) return;
    throw ConfigurationError("op '" + name + "' is registered by " + known->second.origin + " in version " +
                             std::to_string(version) + " and by " + origin + " in version " +
                             std::to_string(definition->version()) + "; accepted: one version");
  }
  entries_.emplace(name, Entry{guarded(std::move(definition), origin), origin});
}

const OpRegistry::Entry& OpRegistry::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  const std::string near = nearest(name, names());
  throw VerificationError("there is no op '" + name + "'" + (near.empty() ? "" : "; nearest is '" + near + "'"));
}

const OpDefinition& OpRegistry::get(const std::string& name) const { return *entry(name).definition; }

const std::string& OpRegistry::origin(const std::string& name) const { return entry(name).origin; }

bool OpRegistry::has(const std::string& name) const { return entries_.contains(name); }

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

}  // namespace strata
