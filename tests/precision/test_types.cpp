// The types that the precision strategy assigns to the values of a graph.

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "setup/run_setup.hpp"
#include "stacks/stack_configuration.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

/// An op of a third party that declares nothing about its operands.
class Squash final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "squash"; }
  [[nodiscard]] std::string documentation() const override { return "x -> x."; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
};

class PrecisionTypes : public ::testing::Test {
 protected:
  PrecisionTypes() {
    register_core(registry_, kernels_);
    registry_.add(std::make_unique<Squash>(), "the test");
  }

  void rewrite(Graph& graph, const std::string& options) {
    const host::RunSetup setup =
        host::prepare(small_gpt2("[[strategy]]\nplugin = \"precision\"\n" + options, 8, 2), plugins_);
    for (const host::NamedStrategy& each : setup.stack.strategies) each.strategy->rewrite_forward(graph, registry_);
    verify(graph, registry_, "the rewrite");
  }

  /// x -> embedding -> squash -> linear -> bias -> layer_norm -> logits -> loss, with tied weights.
  void build(Graph& graph, DType type) {
    GraphBuilder b(graph, registry_, GraphMode::training, type);
    for (const auto& [dim, size] : DimSizes{{"batch", 2}, {"seq", 4}, {"embed", 8}, {"vocab", 16}}) {
      b.define_dim(dim, size);
    }
    const auto parameter = [&](const std::string& name, const Dims& dims) {
      return b.parameter(name, dims, Initialization::constant(1), false);
    };
    const Value table = parameter("table", {"vocab", "embed"});
    Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "embedding");
    x = b.op("squash", {x}, "squash")[0];
    b.define_dim("ffn", 8);
    x = b.linear(x, parameter("weight", {"embed", "ffn"}), {"batch", "seq", "ffn"}, "linear");
    x = b.add(x, parameter("bias", {"ffn"}), "add_bias");
    x = b.linear(x, parameter("down", {"ffn", "embed"}), {"batch", "seq", "embed"}, "projection");
    x = b.layer_norm(x, parameter("gain", {"embed"}), parameter("shift", {"embed"}), 1e-5, "norm");
    const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "logits");
    b.output("logits", logits);
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }

  static const Node& find(const Graph& graph, const std::string& name) {
    for (const Node& node : graph.nodes()) {
      if (node.name == name && node.phase == Phase::forward) return node;
    }
    throw VerificationError("no node '" + name + "'");
  }

  static DType result(const Graph& graph, const std::string& name) { return find(graph, name).results.front().dtype; }
  static DType operand(const Graph& graph, const std::string& name, std::size_t index) {
    return graph.type(find(graph, name).operands.at(index)).dtype;
  }

  OpRegistry registry_;
  KernelRegistry kernels_;
  BuiltPlugins plugins_;
};

TEST_F(PrecisionTypes, StoreInTheShortTypeWhatNoOpNeedsInF32) {
  Graph graph;
  build(graph, DType::f32);
  rewrite(graph, "compute = \"bf16\"");
  for (const std::string name : {"table", "weight", "bias", "down"})
    EXPECT_EQ(result(graph, name), DType::bf16) << name;
  for (const std::string name : {"gain", "shift"}) EXPECT_EQ(result(graph, name), DType::f32) << name;
  for (const Parameter& parameter : graph.parameters) EXPECT_EQ(parameter.gradient_type, std::nullopt);
}

TEST_F(PrecisionTypes, ComputeProductsInTheShortTypeAndTheLossInF32) {
  Graph graph;
  build(graph, DType::f32);
  rewrite(graph, "compute = \"fp16\"");
  for (const std::string name : {"linear", "add_bias", "projection", "norm", "logits"}) {
    EXPECT_EQ(result(graph, name), DType::f16) << name;
  }
  EXPECT_EQ(find(graph, "norm").results[1].dtype, DType::f32) << "the mean";
  EXPECT_EQ(find(graph, "loss").results[1].dtype, DType::f32) << "the log-sum-exp";
  ASSERT_TRUE(graph.loss_scaling.has_value());
  EXPECT_EQ(*graph.loss_scaling, LossScaling{});
}

TEST_F(PrecisionTypes, LeaveOpsThatSayNothingAndOutputsAsTheModelMadeThem) {
  Graph graph;
  build(graph, DType::f32);
  rewrite(graph, "compute = \"bf16\"");
  EXPECT_EQ(operand(graph, "squash", 0), DType::f32);
  EXPECT_EQ(operand(graph, "linear", 0), DType::bf16);
  const auto output = std::find_if(graph.sinks.begin(), graph.sinks.end(),
                                   [](const Sink& sink) { return sink.kind == Sink::Kind::output; });
  EXPECT_EQ(graph.type(output->value).dtype, DType::f32);
}

/// Gradients of parameters are f32 from the product on, so that nothing is rounded before it is summed.
TEST_F(PrecisionTypes, AddUpGradientsInF32OrAsReduceSays) {
  for (const auto& [option, expected] : {std::pair{"", DType::f32}, std::pair{"reduce = \"bf16\"", DType::bf16}}) {
    Graph graph;
    build(graph, DType::f32);
    graph.sinks.erase(std::remove_if(graph.sinks.begin(), graph.sinks.end(),
                                     [](const Sink& sink) { return sink.kind == Sink::Kind::output; }),
                      graph.sinks.end());
    // An op without a gradient.
    for (Node node : std::vector<Node>(graph.nodes())) {
      if (node.op == "squash") graph.replace_uses({node.id, 0}, node.operands[0]);
    }
    rewrite(graph, option);
    differentiate(graph, registry_);
    verify(graph, registry_, "differentiation");
    std::set<std::string> seen;
    for (const Sink& sink : graph.sinks) {
      if (sink.kind != Sink::Kind::parameter_gradient) continue;
      seen.insert(sink.name);
      const bool is_norm = sink.name == "gain" || sink.name == "shift";
      EXPECT_EQ(graph.type(sink.value).dtype, is_norm ? DType::f32 : expected) << sink.name;
    }
    EXPECT_EQ(seen.size(), graph.parameters.size());
  }
}

TEST_F(PrecisionTypes, LeaveF64AloneButScaleTheLoss) {
  Graph graph;
  build(graph, DType::f64);
  const std::string before = to_string(graph);
  rewrite(graph, "compute = \"fp16\"\nreduce = \"bf16\"");
  EXPECT_EQ(to_string(graph), before);
  EXPECT_TRUE(graph.loss_scaling.has_value());
  for (const Parameter& parameter : graph.parameters) EXPECT_EQ(parameter.gradient_type, std::nullopt);
}

TEST_F(PrecisionTypes, AreChosenOnce) {
  const std::string twice = "compute = \"bf16\"\n[[strategy]]\nplugin = \"precision\"\n";
  Graph graph;
  build(graph, DType::f32);
  try {
    rewrite(graph, twice);
    FAIL() << "two strategies chose types";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("one strategy chooses types"));
  }
}

}  // namespace
}  // namespace strata::testing
