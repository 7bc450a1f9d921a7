// The gradient of every op in f64 on the reference device, against finite differences of the loss.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "ops/op_case.hpp"
#include "strata/random.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::testing {
namespace {

using host::GraphEvaluator;

/// How operands reach the op: as parameters, or as results of another op. Gradient rules distinguish them.
enum class Source : std::uint8_t { parameter, activation };

/// Scale of the loss, and so of gradients in the graph.
constexpr double kLossScale = 8;

/// A loss that depends on every element of the op's first result: a random projection of its last dim to the logits of
/// a cross-entropy.
class OpLoss {
 public:
  OpLoss(const OpCase& op_case, Source source) : op_case_(op_case), device_(make_device("reference")) {
    build(source);
    verify(graph_, registry_, "build");
    graph_.loss_scaling = LossScaling{};
    differentiate(graph_, registry_);
    verify(graph_, registry_, "differentiate");
    decompose(graph_, registry_);
    verify(graph_, registry_, "decompose");
    evaluator_ = std::make_unique<GraphEvaluator>(graph_, registry_, *device_, 99);
    for (const auto& [name, values] : fixed_) evaluator_->set(name, values);
  }

  double loss() {
    for (const auto& [name, values] : parameters_) evaluator_->set(name, values);
    evaluator_->run({.step = 5, .micro_batch = 1, .loss_scale = kLossScale});
    return evaluator_->loss();
  }

  [[nodiscard]] std::vector<double> gradient(const std::string& name) const {
    std::vector<double> gradient = evaluator_->parameter_gradient(name);
    for (double& each : gradient) each /= kLossScale;
    return gradient;
  }
  std::map<std::string, std::vector<double>>& parameters() { return parameters_; }

  [[nodiscard]] std::set<std::string> ops() const {
    std::set<std::string> names;
    for (const Node& node : graph_.nodes()) names.insert(node.op);
    return names;
  }

 private:
  void build(Source source) {
    graph_.sizes = op_case_.sizes;
    GraphBuilder builder(graph_, registry_, GraphMode::training, DType::f64);
    builder.define_dim("class", 3);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < op_case_.operands.size(); ++i) operands.push_back(add_operand(builder, i, source));
    if (op_case_.op == "cross_entropy") {
      const std::vector<Value> results = builder.op("cross_entropy", operands, "loss", op_case_.attributes);
      graph_.sinks.push_back({Sink::Kind::loss, {}, results[0]});
      graph_.sinks.push_back({Sink::Kind::count, {}, results[2]});
      return;
    }

    Attributes attributes = op_case_.attributes;
    if (op_case_.op == "cast") attributes.set("dtype", std::string("f64"));
    const Value result = builder.op(op_case_.op, operands, op_case_.name, attributes)[0];
    Dims dims = graph_.type(result).dims;
    if (dims.empty()) return builder.add_loss(result);
    const Value projection = add_parameter(builder, "projection", {dims.back(), "class"}, Fill::normal);
    dims.back() = "class";
    const Value logits = builder.linear(result, projection, dims, "logits");
    dims.pop_back();
    builder.cross_entropy_loss(logits, add_indices(builder, "targets", dims, 3), "loss");
  }

  Value add_operand(GraphBuilder& builder, std::size_t index, Source source) {
    const CaseOperand& operand = op_case_.operands[index];
    const std::string name = "operand" + std::to_string(index);
    if (operand.fill == Fill::ids || operand.fill == Fill::targets) {
      const Dims& first = op_case_.operands[0].dims;
      return add_indices(builder, name, operand.dims,
                         graph_.sizes.at(operand.fill == Fill::ids ? first.front() : first.back()));
    }
    if (operand.fill == Fill::positions) {
      return add_indices(builder, name, operand.dims, graph_.sizes.at(op_case_.operands[1].dims.front()));
    }
    if (!operand.trained) return add_frozen(builder, name, operand);
    if (operand.fill == Fill::documents) return add_documents(builder, name, operand.dims);
    const Value parameter = add_parameter(builder, name, operand.dims, operand.fill);
    if (source == Source::parameter) return parameter;
    return builder.op("sum", {parameter}, name + ".activation")[0];
  }

  Value add_parameter(GraphBuilder& builder, const std::string& name, const Dims& dims, Fill fill) {
    const Value value = builder.parameter(name, dims, Initialization::constant(0), false);
    parameters_[name] = random_values(op_case_.name + "/" + name, element_count(graph_.shape(value)), fill);
    return value;
  }

  Value add_frozen(GraphBuilder& builder, const std::string& name, const CaseOperand& operand) {
    // Changes of running averages are no derivatives.
    const bool is_average = op_case_.op == "batch_norm" || op_case_.op == "top_k";
    const Initialization zeros = Initialization::constant(0);
    const Value value = is_average ? builder.running_average(name, operand.dims, zeros)
                                   : builder.frozen_parameter(name, operand.dims, zeros);
    fixed_[name] = random_values(op_case_.name + "/" + name, element_count(graph_.shape(value)), operand.fill);
    return value;
  }

  Value add_indices(GraphBuilder& builder, const std::string& name, const Dims& dims, std::int64_t bound) {
    const Value value = builder.input(name, dims);
    std::vector<double>& values = fixed_[name];
    for (std::int64_t i = 0; i < element_count(graph_.shape(value)); ++i) {
      values.push_back(i % 6 == 5 ? -1.0 : static_cast<double>(i * 7 % bound));
    }
    return value;
  }

  Value add_documents(GraphBuilder& builder, const std::string& name, const Dims& dims) {
    const Value value = builder.input(name, dims);
    const Shape shape = graph_.shape(value);
    const std::uint64_t key = random::stream_key(3, op_case_.name, 0);
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      fixed_[name].push_back(document_of(key, i / shape[1], i % shape[1], shape[1]));
    }
    return value;
  }

  const OpCase& op_case_;
  std::unique_ptr<Device> device_;
  const OpRegistry& registry_ = core_registry();
  Graph graph_;
  std::map<std::string, std::vector<double>> parameters_;
  /// Values that the loss is not differentiated by.
  std::map<std::string, std::vector<double>> fixed_;
  std::unique_ptr<GraphEvaluator> evaluator_;
};

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& each : all_op_cases()) {
    if (each.differentiable) cases.push_back(each);
  }
  return cases;
}

/// d loss / d step along `direction` by the five-point formula, whose error is of the order of step^4.
double derivative_along(OpLoss& loss, std::vector<double>& values, const std::vector<double>& direction) {
  constexpr double kStep = 1e-3;
  const std::vector<double> origin = values;
  const auto at = [&](double steps) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = origin[i] + steps * kStep * direction[i];
    return loss.loss();
  };
  const double result = (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * kStep);
  values = origin;
  return result;
}

class OpGradients : public ::testing::TestWithParam<std::tuple<OpCase, Source>> {};

TEST_P(OpGradients, EqualDifferencesOfTheLoss) {
  const OpCase& op_case = std::get<0>(GetParam());
  OpLoss loss(op_case, std::get<1>(GetParam()));
  for (auto& [name, values] : loss.parameters()) {
    SCOPED_TRACE(name);
    loss.loss();
    const std::vector<double> gradient = loss.gradient(name);
    ASSERT_EQ(gradient.size(), values.size());
    double norm = 0.0;
    for (const double each : gradient) norm += each * each;
    norm = std::sqrt(norm);
    EXPECT_GT(norm, 0.0);
    // A wrong gradient differs along almost every direction.
    for (int probe = 0; probe < 4; ++probe) {
      std::vector<double> direction =
          random_values(name + std::to_string(probe), static_cast<std::int64_t>(values.size()), Fill::normal);
      const double scale = 1.0 / std::sqrt(static_cast<double>(direction.size()));
      double expected = 0.0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        direction[i] *= scale;
        expected += gradient[i] * direction[i];
      }
      // The rounding of the loss divided by the step: 1e-15 · loss / 1e-3.
      EXPECT_NEAR(derivative_along(loss, values, direction), expected, 1e-9 * (1.0 + norm));
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<OpCase, Source>>& test) {
  const bool direct = std::get<1>(test.param) == Source::parameter;
  return std::get<0>(test.param).name + (direct ? "_of_parameters" : "_of_activations");
}

INSTANTIATE_TEST_SUITE_P(Table, OpGradients,
                         ::testing::Combine(::testing::ValuesIn(differentiable_cases()),
                                            ::testing::Values(Source::parameter, Source::activation)),
                         test_name);

TEST(OpGradientTable, CoversEveryRegisteredOp) {
  std::set<std::string> covered;
  for (const OpCase& each : differentiable_cases()) {
    covered.insert(each.op);
    for (const std::string& op : OpLoss(each, Source::parameter).ops()) covered.insert(op);
  }
  // Only strategies, optimizers, generation, metrics and the compiler use these ops. No loss reads them, or their
  // operands are frozen.
  const std::set<std::string> without_gradient = {"attention_merge",
                                                  "quantize_blocks",
                                                  "dequantize_blocks",
                                                  "linear_bias_activation",
                                                  "linear_activation_gradient",
                                                  "cached_attention",
                                                  "adam_direction",
                                                  "identity_minus",
                                                  "orthonormal_rows",
                                                  "normalize",
                                                  "count_choices",
                                                  "count_correct",
                                                  "dequantize_weight"};
  for (const std::string& name : core_registry().names()) {
    const bool is_flat = core_registry().get(name).flat_signature({}).has_value();
    if (is_flat || without_gradient.contains(name)) continue;
    EXPECT_TRUE(covered.contains(name)) << "no differentiable row of the table reaches op '" << name << "'";
  }
}

}  // namespace
}  // namespace strata::testing
