/// \file
/// An evaluation pass beside a training step whose graph has more, or less.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "loading/plugin_call.hpp"
#include "random_strategy.hpp"
#include "stack_test.hpp"

namespace strata::testing {
namespace {

/// Two blocks, and what a test adds in one of the modes.
class TwoModes final : public Model {
 public:
  /// Gets the residual stream and the tied table at the end of the last block.
  using Extra = std::function<void(GraphBuilder&, Value x, Value table)>;

  TwoModes(GraphMode mode, Extra extra) : mode_(mode), extra_(std::move(extra)) {}

  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 4}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    b.define_dim("seq", 4);
    b.define_dim("embed", 4);
    b.define_dim("ffn", 8);
    const Value table = matrix(b, "table", {"vocab", "embed"});
    Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "token");
    b.begin_block(1);
    x = b.linear(x, matrix(b, "up", {"embed", "ffn"}), {"batch", "seq", "ffn"}, "up_");
    x = b.linear(x, matrix(b, "down", {"ffn", "embed"}), {"batch", "seq", "embed"}, "down_");
    if (b.mode() == mode_) extra_(b, x, table);
    x = b.linear(x, matrix(b, "wide", {"embed", "ffn"}), {"batch", "seq", "ffn"}, "wide_");
    loss(b, x, matrix(b, "head", {"ffn", "vocab"}), "loss", true);
  }

  static Value matrix(GraphBuilder& b, const std::string& name, const Dims& dims) {
    return b.parameter(name, dims, Initialization::normal(0.5), true);
  }
  static void loss(GraphBuilder& b, Value x, Value head, const std::string& name, bool main) {
    const Value logits = b.linear(x, head, {"batch", "seq", "vocab"}, name + ".logits");
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), name, main);
  }

 private:
  GraphMode mode_;
  Extra extra_;
};

class EvaluationBeside : public ::testing::Test {
 protected:
  using Strategies = std::vector<host::NamedStrategy>;

  struct Both {
    host::Compiled training;
    host::Compiled evaluation;
  };

  [[nodiscard]] Both compile(GraphMode mode, TwoModes::Extra extra, Strategies strategies) {
    host::CompileRequest request = runner_.request(std::make_shared<TwoModes>(mode, std::move(extra)), 8, 2);
    request.strategies = std::move(strategies);
    Both both;
    both.training = host::compile(request);
    request.mode = GraphMode::evaluation;
    both.evaluation = host::compile(request, &both.training);
    return both;
  }

  /// What an evaluation graph with `extra` is refused with.
  [[nodiscard]] std::string refusal(const TwoModes::Extra& extra, const Strategies& strategies = {}) {
    try {
      static_cast<void>(compile(GraphMode::evaluation, extra, strategies));
    } catch (const host::PluginError& error) {
      EXPECT_EQ(error.origin().kind, PluginKind::model);
      return error.what();
    }
    return "accepted";
  }

  [[nodiscard]] Strategies zero(std::int64_t stage) {
    return {runner_.strategy("zero", {{"size", std::int64_t{2}}, {"stage", stage}})};
  }
  [[nodiscard]] Strategies offload() {
    return {
        runner_.strategy("zero", {{"size", std::int64_t{2}}, {"stage", std::int64_t{3}}, {"offload_param", "host"}})};
  }
  [[nodiscard]] Strategies pipeline() { return {runner_.strategy("pipeline", {{"size", std::int64_t{2}}})}; }

  StackRunner runner_;
};

/// Every parameter of the evaluation lies where the training step has it.
void expect_shared(const host::Compiled& training, const host::Compiled& evaluation) {
  ASSERT_EQ(training.programs.size(), evaluation.programs.size());
  for (std::size_t i = 0; i < training.programs.size(); ++i) {
    const host::SharedMemory shared = host::shared_memory(training.programs[i], training.plans[i]);
    const host::SharedMemory found = host::shared_memory(evaluation.programs[i], evaluation.plans[i]);
    EXPECT_GT(found.parameters.size(), 0U);
    for (const auto& [name, parameter] : found.parameters) {
      ASSERT_TRUE(shared.parameters.contains(name)) << name;
      EXPECT_EQ(parameter.offset, shared.parameters.at(name).offset) << name;
      EXPECT_EQ(parameter.storage, shared.parameters.at(name).storage) << name;
    }
  }
}

TEST_F(EvaluationBeside, LacksAHeadThatTrainsOnly) {
  const auto head = [](GraphBuilder& b, Value x, Value /*table*/) {
    TwoModes::loss(b, x, TwoModes::matrix(b, "second", {"embed", "vocab"}), "second_loss", false);
  };
  for (const Strategies& strategies :
       {Strategies{}, zero(1), zero(2), zero(3), offload(), pipeline(), Strategies{pipeline()[0], zero(3)[0]}}) {
    SCOPED_TRACE(strategies.empty() ? "one rank" : strategies.back().name);
    const Both both = compile(GraphMode::training, head, strategies);
    EXPECT_EQ(communication_fault(both.evaluation), std::nullopt);
    expect_shared(both.training, both.evaluation);
  }
}

TEST_F(EvaluationBeside, MayReadLessOfABucketThanTrainingGathers) {
  const auto head = [](GraphBuilder& b, Value x, Value /*table*/) {
    TwoModes::loss(b, x, TwoModes::matrix(b, "second", {"embed", "vocab"}), "second_loss", false);
  };
  const Both both = compile(GraphMode::training, head, zero(3));
  const auto holds = [](const Program& program, const std::string& name) {
    return std::any_of(program.parameters.begin(), program.parameters.end(),
                       [&](const StoredParameter& each) { return each.name == name; });
  };
  EXPECT_TRUE(holds(both.training.programs.front(), "second"));
  EXPECT_FALSE(holds(both.evaluation.programs.front(), "second"));
  // "wide" lies behind "second", in the bucket of the last block.
  const auto sharding = [](const Program& program, const std::string& name) {
    return std::find_if(program.parameters.begin(), program.parameters.end(),
                        [&](const StoredParameter& each) { return each.name == name; })
        ->sharding.value();
  };
  EXPECT_EQ(sharding(both.evaluation.programs.front(), "wide"), sharding(both.training.programs.front(), "wide"));
  EXPECT_GT(sharding(both.training.programs.front(), "wide").offset,
            sharding(both.training.programs.front(), "second").offset);
}

TEST_F(EvaluationBeside, MayLackWhatAnAxisShards) {
  const auto head = [](GraphBuilder& b, Value x, Value /*table*/) {
    b.define_dim("extra", 4);
    x = b.linear(x, TwoModes::matrix(b, "widen", {"embed", "extra"}), {"batch", "seq", "extra"}, "widen_");
    TwoModes::loss(b, x, TwoModes::matrix(b, "second", {"extra", "vocab"}), "second_loss", false);
  };
  const auto rules = std::make_shared<RulesOnly>(std::vector<MeshAxis>{{"xp", 2}},
                                                 std::vector<Rule>{{"extra", "xp", 20, Distribution::block, {}}});
  const Both both = compile(GraphMode::training, head, {{"rules", rules}});
  expect_shared(both.training, both.evaluation);
}

TEST_F(EvaluationBeside, HasNoParameterOfItsOwn) {
  const std::string begin = "the model: its evaluation graph ";
  EXPECT_EQ(refusal([](GraphBuilder&, Value, Value) {}), "accepted");
  EXPECT_EQ(refusal([](GraphBuilder& b, Value x, Value) {
              b.output("sum", b.add(x, b.constant("shift", {"embed"}, Initialization::constant(1)), "shifted"));
            }),
            begin + "has constant 'shift', which its training graph lacks; ask for it in both");
  EXPECT_EQ(refusal([](GraphBuilder& b, Value x, Value) {
              TwoModes::loss(b, x, TwoModes::matrix(b, "second", {"embed", "vocab"}), "second_loss", false);
            }),
            begin + "has parameter 'second', which its training graph lacks; ask for it in both");
}

TEST_F(EvaluationBeside, HasNoBlockOfItsOwn) {
  const auto block = [](GraphBuilder& b, Value x, Value table) {
    b.begin_block(2);
    TwoModes::loss(b, x, table, "second_loss", false);
  };
  for (const Strategies& strategies : {Strategies{}, pipeline()}) {
    EXPECT_EQ(refusal(block, strategies),
              "the model: its evaluation graph has 3 blocks, its training graph 2; accepted: at most as many");
  }
}

TEST_F(EvaluationBeside, ReadsParametersOnTheStagesThatHoldThem) {
  const auto tied = [](GraphBuilder& b, Value x, Value table) { TwoModes::loss(b, x, table, "second_loss", false); };
  EXPECT_EQ(refusal(tied), "accepted");
  EXPECT_EQ(refusal(tied, zero(3)), "accepted");
  EXPECT_EQ(refusal(tied, pipeline()),
            "the model: its evaluation graph reads parameter 'table' in block 1, on stage 1, which its training graph "
            "does not");
}

/// A model with another size of a dimension in either mode.
class TwoSizes final : public Model {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 4}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    b.define_dim("seq", 4);
    b.define_dim("embed", b.mode() == GraphMode::training ? 4 : 8);
    const Value table = TwoModes::matrix(b, "table", {"vocab", "embed"});
    TwoModes::loss(b, b.embedding(table, b.input("tokens", {"batch", "seq"}), "token"), table, "loss", true);
  }
};

TEST_F(EvaluationBeside, HasParametersOfTheSameSize) {
  host::CompileRequest request = runner_.request(std::make_shared<TwoSizes>(), 8, 2);
  const host::Compiled training = host::compile(request);
  request.mode = GraphMode::evaluation;
  try {
    static_cast<void>(host::compile(request, &training));
    FAIL() << "accepted";
  } catch (const host::PluginError& error) {
    EXPECT_STREQ(error.what(),
                 "the model: its evaluation graph has parameter 'table' as [vocab embed]f64 of 8 x 8, its training "
                 "graph as [vocab embed]f64 of 8 x 4");
  }
}

}  // namespace
}  // namespace strata::testing
