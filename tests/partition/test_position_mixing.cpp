/// \file
/// Ops that declare how they mix positions, and those that declare too little: what `context` makes of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stack_test.hpp"
#include "strata/error.hpp"
#include "strata/reference_kernel.hpp"

namespace strata::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// One layer of attention from "seq" to the keys of another sequence, as in a translator.
class Translator final : public Model {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 8}, {"source", 12}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    for (const auto& [dim, size] : DimSizes{{"embed", 8}, {"heads", 2}, {"head_dim", 4}}) b.define_dim(dim, size);
    const auto matrix = [&](const std::string& name, const Dims& dims) {
      return b.parameter(name, dims, Initialization::normal(0.5), true);
    };
    const Value table = matrix("table", {"vocab", "embed"});
    const Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "token");
    const Value source = b.embedding(table, b.input("source", {"batch", "source"}), "source_token");
    const auto heads = [&](Value of, const Dim& positions, const std::string& name) {
      return b.linear(of, matrix(name + ".weight", {"embed", "heads", "head_dim"}),
                      {"batch", positions, "heads", "head_dim"}, name);
    };
    const Value mixed = b.attention(heads(x, "seq", "query"), heads(source, "source", "key"),
                                    heads(source, "source", "value"), {.dropout = 0.2}, "attention");
    const Value back =
        b.linear(mixed, matrix("back.weight", {"heads", "head_dim", "embed"}), {"batch", "seq", "embed"}, "back");
    const Value logits = b.linear(b.add(x, back, "residual"), table, {"batch", "seq", "vocab"}, "logits");
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }

  static std::vector<DatasetInput> inputs() {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "source", .dims = {"source"}, .indexes = "vocab"},
            {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true}};
  }
};

using ContextOptions = std::map<std::string, OptionValue>;

class CrossAttention : public ::testing::TestWithParam<ContextOptions> {};

TEST_P(CrossAttention, TrainsAsOnOneRank) {
  StackRunner runner;
  host::CompileRequest request = runner.request(std::make_shared<Translator>(), 8, 4);
  const host::Compiled single = host::compile(request);
  request.strategies = {runner.strategy("context", GetParam())};
  const host::Compiled stack = host::compile(request);
  EXPECT_THAT(stack.notes, IsEmpty());
  ASSERT_EQ(communication_fault(stack), std::nullopt);
  const host::StackDifference difference =
      host::compare(runner.run(stack, Translator::inputs()), runner.run(single, Translator::inputs()), single.graph);
  EXPECT_LT(difference.loss, 1e-10);
  EXPECT_LT(difference.parameter, 1e-10) << difference.worst_parameter;
}

const OptionValue kBoth{std::vector<std::string>{"seq", "source"}};
const OptionValue kTwo{std::int64_t{2}};

INSTANTIATE_TEST_SUITE_P(
    Methods, CrossAttention,
    ::testing::Values(
        ContextOptions{{"size", kTwo}, {"sequences", kBoth}},
        ContextOptions{{"size", OptionValue(std::int64_t{4})}, {"sequences", kBoth}, {"balance", std::string("none")}},
        ContextOptions{{"size", kTwo}, {"sequences", kBoth}, {"attention", std::string("ulysses")}},
        ContextOptions{{"size", kTwo}, {"sequences", kBoth}, {"attention", std::string("all_gather")}},
        // The keys' sequence is whole everywhere, so nothing is gathered.
        ContextOptions{{"size", kTwo}}));

/// y[t] = x[size - 1 - t], which declares what a test selects.
class Reversed final : public OpDefinition {
 public:
  explicit Reversed(std::optional<PositionMixing> mixing) : mixing_(std::move(mixing)) {}
  [[nodiscard]] std::string name() const override { return "reversed"; }
  [[nodiscard]] std::string documentation() const override { return "x -> x in the reverse order of positions."; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.operands[0][1] = "from_seq";
    space.whole = {"from_seq"};
    return space;
  }
  [[nodiscard]] std::optional<PositionMixing> mixing(const Graph& /*graph*/, const Node& /*node*/) const override {
    return mixing_;
  }
  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& context) {
      context.contribute(0, context.emit(0, "reversed", {*context.cotangent(0)}, {})[0]);
    };
  }

 private:
  std::optional<PositionMixing> mixing_;
};

class ReversedModel final : public Model {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 8}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    b.define_dim("embed", 8);
    const Value table = b.parameter("table", {"vocab", "embed"}, Initialization::normal(0.5), true);
    const Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "token");
    const Value logits = b.linear(b.op("reversed", {x}, "turned")[0], table, {"batch", "seq", "vocab"}, "logits");
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }
};

/// The notes on the op, or the message with which it is refused.
std::vector<std::string> notes_on(std::optional<PositionMixing> mixing, const std::string& attention = "ring") {
  StackRunner runner;
  Registration registration = runner.registration();
  registration.add(std::make_unique<Reversed>(std::move(mixing)));
  host::CompileRequest request = runner.request(std::make_shared<ReversedModel>(), 8, 4);
  request.device = nullptr;
  request.strategies = {runner.strategy("context", {{"size", kTwo}, {"attention", attention}})};
  try {
    const host::Compiled compiled = host::compile(request);
    return {compiled.notes.begin(), compiled.notes.end()};
  } catch (const Error& error) {
    return {error.what()};
  }
}

constexpr auto kSum = PositionMixing::Merge::sum;

TEST(PositionMixing, WhatAnOpLacksIsANote) {
  const auto note = [](const std::string& attention, const std::string& why) {
    return "context: attention = \"" + attention + "\" is not possible for op 'reversed' because " + why +
           ", so 'seq' is gathered for it";
  };
  EXPECT_THAT(notes_on(std::nullopt), ElementsAre(note("ring", "it does not declare how it mixes positions")));
  EXPECT_THAT(notes_on(PositionMixing{.queries = "seq", .keys = "from_seq"}),
              ElementsAre(note("ring", "it declares no merge of results for parts of its keys")));
  EXPECT_THAT(notes_on(PositionMixing{.queries = "seq", .keys = "from_seq", .merge = kSum}), IsEmpty());
  EXPECT_THAT(notes_on(std::nullopt, "ulysses"),
              ElementsAre(note("ulysses", "it does not declare how it mixes positions")));
  EXPECT_THAT(notes_on(PositionMixing{.queries = "seq", .keys = "from_seq"}, "ulysses"),
              ElementsAre(note("ulysses", "it declares no heads")));
  EXPECT_THAT(notes_on(std::nullopt, "all_gather"), IsEmpty()) << "it is what was asked for";
}

TEST(PositionMixing, ADeclarationThatTheOpDoesNotKeepIsRefused) {
  const auto refusal = [](PositionMixing mixing) { return notes_on(std::move(mixing)).at(0); };
  EXPECT_EQ(
      refusal({.queries = "seq", .keys = "kv_seq"}),
      "op 'reversed' of the test: mixing, for node 'turned', names the dimension 'kv_seq'; accepted: an iteration "
      "dimension: batch, from_seq, embed, seq");
  EXPECT_THAT(refusal({.queries = "seq", .keys = "from_seq", .heads = {"heads"}}), HasSubstr("'heads'"));
  EXPECT_THAT(refusal({.queries = "seq", .keys = "seq"}), HasSubstr("has the keys 'seq'; accepted: a dimension other"));
  EXPECT_THAT(refusal({.queries = "seq", .keys = "embed"}), HasSubstr("has the keys 'embed'"));
  EXPECT_THAT(refusal({.queries = "seq", .keys = "from_seq", .merge = PositionMixing::Merge::log_sum_exp}),
              HasSubstr("merges results 0 and 1 of 1 by log-sum-exp; accepted: the only two results"));
}

}  // namespace
}  // namespace strata::testing
