/// \file
/// Parameters without a gradient, on one of their stages or at all, train as they do on one rank.

#include <gtest/gtest.h>

#include <ostream>

#include "stack_test.hpp"
#include "strata/reference_kernel.hpp"

namespace strata::testing {
namespace {

/// x -> x. Nothing before it learns from what follows.
class Detach final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "detach"; }
  [[nodiscard]] std::string documentation() const override { return "x -> x, without a gradient."; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& /*context*/) {};
  }
};

reference::Work copy(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, launch.operand(0)[i]);
  };
}

/// The first and the last block read "table", and the last block's reading is detached. "fixed" is trained, and has no
/// gradient at all. Only a dead value reads "unread".
class DetachedModel final : public Model {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 4}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    b.define_dim("seq", 4);
    b.define_dim("embed", 4);
    const auto matrix = [&](const std::string& name, const Dims& dims) {
      return b.parameter(name, dims, Initialization::normal(0.5), true);
    };
    const Value table = matrix("table", {"vocab", "embed"});
    const Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "token");
    b.begin_block(1);
    const Value gain = b.parameter("gain", {"embed"}, Initialization::constant(1), false);
    const Value bias = b.parameter("bias", {"embed"}, Initialization::normal(0.1), false);
    const Value normed = b.layer_norm(x, gain, bias, 1e-5, "norm");
    const auto detached = [&](Value of, const std::string& name) { return b.op("detach", {of}, name).front(); };
    const Value fixed = detached(matrix("fixed", {"vocab", "embed"}), "detached.fixed");
    const Value head = b.add(b.add(matrix("head", {"vocab", "embed"}), fixed, "with_fixed"),
                             detached(table, "detached.table"), "with_table");
    static_cast<void>(b.linear(normed, matrix("unread", {"vocab", "embed"}), {"batch", "seq", "vocab"}, "dead"));
    const Value logits = b.linear(normed, head, {"batch", "seq", "vocab"}, "logits");
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }
};

struct Row {
  const char* name;
  bool pipeline;
  /// The strategy of the data; none if empty.
  const char* plugin;
  std::map<std::string, OptionValue> options;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class MissingGradients : public ::testing::TestWithParam<Row> {
 protected:
  MissingGradients() {
    Registration registration = runner_.registration();
    registration.add(std::make_unique<Detach>());
    registration.add(reference::kernel({"detach", "r", "r", copy}));
  }

  StackRunner runner_;
};

TEST_P(MissingGradients, TrainAsOneRank) {
  constexpr std::int64_t kSequences = 8;
  host::CompileRequest request = runner_.request(std::make_shared<DetachedModel>(), kSequences, 2);
  if (GetParam().pipeline) request.strategies.push_back(runner_.strategy("pipeline", {{"size", std::int64_t{2}}}));
  if (*GetParam().plugin != '\0') request.strategies.push_back(runner_.strategy(GetParam().plugin, GetParam().options));
  const host::Compiled stack = host::compile(request);
  ASSERT_EQ(communication_fault(stack), std::nullopt);
  request.strategies.clear();
  request.micro_batch = kSequences;
  const host::Compiled single = host::compile(request);
  const host::StackResult found = runner_.run(stack);
  const host::StackDifference difference = host::compare(found, runner_.run(single), single.graph);
  EXPECT_LT(difference.worst(), 1e-10) << difference.worst_parameter;
  EXPECT_EQ(found.replica_difference, 0);
  EXPECT_EQ(found.planned_peak_bytes, found.arena_peak_bytes);
}

/// Refuses "unread", as Muon refuses a matrix that no product reads.
class Picky final : public Optimizer {
 public:
  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription&) const override { return {}; }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    return parameter.name == "unread" ? std::optional<std::string>("no product reads it") : std::nullopt;
  }
  void update(UpdateContext& context) const override { context.update("sgd_update", {}, {}); }
  void define(DefinedUpdate&) const override {}
};

TEST(UnreadParameters, AreNotTrainedAndNoOptimizerIsAskedForThem) {
  StackRunner runner;
  runner.registration().add(std::make_unique<Detach>());
  runner.registration().add(reference::kernel({"detach", "r", "r", copy}));
  host::CompileRequest request = runner.request(std::make_shared<DetachedModel>(), 8, 2);
  request.optimizer.groups.front().optimizer = std::make_shared<Picky>();
  const host::Compiled compiled = host::compile(request);
  EXPECT_EQ(compiled.graph.find_parameter("unread")->role, ParameterRole::frozen);
  EXPECT_EQ(compiled.graph.find_parameter("fixed")->role, ParameterRole::trained);
}

std::map<std::string, OptionValue> zero(std::int64_t stage, bool overlap = true) {
  return {{"size", std::int64_t{2}}, {"stage", stage}, {"overlap", overlap}};
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MissingGradients,
    ::testing::Values(Row{"ddp", false, "ddp", {{"size", std::int64_t{2}}}}, Row{"zero_1", false, "zero", zero(1)},
                      Row{"zero_2", false, "zero", zero(2)}, Row{"zero_3", false, "zero", zero(3)},
                      Row{"pipeline", true, "", {}}, Row{"pipeline_ddp", true, "ddp", {{"size", std::int64_t{2}}}},
                      Row{"pipeline_zero_1", true, "zero", zero(1)},
                      Row{"pipeline_zero_1_at_the_end", true, "zero", zero(1, false)},
                      Row{"pipeline_zero_2", true, "zero", zero(2)}, Row{"pipeline_zero_3", true, "zero", zero(3)},
                      Row{"pipeline_single_writer", true, "dataparallel", {{"size", std::int64_t{2}}}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
