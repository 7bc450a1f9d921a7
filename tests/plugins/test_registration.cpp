#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "samples/doubled.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

/// \file
/// Ops and kernels that plugins add to a run: which of several has precedence, and how wrong ones are refused.

namespace strata {
namespace {

using testing::ElementsAre;

template <class Exception, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "accepted";
}

class Registrations : public testing::Test {
 protected:
  Registrations() { register_core(ops_, kernels_); }

  Registration of(const std::string& origin) { return {ops_, kernels_, origin}; }
  std::vector<std::string> origins(const std::string& op, const std::string& runtime) const {
    std::vector<std::string> found;
    for (const RegisteredKernel* each : kernels_.find(op, runtime)) found.push_back(each->origin);
    return found;
  }

  OpRegistry ops_;
  KernelRegistry kernels_;
};

PreparedKernel prepare_nothing(const OpInstance& /*op*/, const KernelEnvironment& /*environment*/) {
  return {[](const KernelArguments&) {}};
}

TEST_F(Registrations, TwoPluginsMayBringOneOp) {
  of("plugin a").add(std::make_unique<Doubled>(1));
  of("plugin b").add(std::make_unique<Doubled>(1));
  EXPECT_EQ(ops_.origin("doubled"), "plugin a");
  EXPECT_EQ(message_of<ConfigurationError>([&] { of("plugin c").add(std::make_unique<Doubled>(2)); }),
            "op 'doubled' is registered by plugin a in version 1 and by plugin c in version 2; accepted: one version");
  EXPECT_EQ(message_of<ConfigurationError>([&] { of("plugin d").add(std::unique_ptr<OpDefinition>()); }),
            "plugin d registers an op without a definition");
  EXPECT_EQ(message_of<VerificationError>([&] { (void)ops_.get("double"); }),
            "there is no op 'double'; nearest is 'doubled'");
}

TEST_F(Registrations, ModelsAreToldHowOpsGetIntoARun) {
  Graph graph;
  GraphBuilder builder(graph, ops_, GraphMode::training, DType::f32);
  EXPECT_THAT(message_of<ConfigurationError>([&] { (void)builder.op("doubled", {}, "h.0.double"); }),
              testing::StartsWith("node 'h.0.double': no plugin of this run brings the op 'doubled'; accepted: "));
  of("plugin a").add(std::make_unique<Doubled>(1));
  EXPECT_THAT(message_of<ConfigurationError>([&] { (void)builder.op("double", {}, "h.0.double"); }),
              testing::HasSubstr("brings the op 'double'; did you mean 'doubled'?; accepted: "));
}

TEST_F(Registrations, TheHighestRankComesFirstAndOfEqualOnesTheFirst) {
  const auto add = [&](const std::string& origin, int rank, const std::string& runtime = "host") {
    of(origin).add(
        {.op = "add", .runtime = runtime, .signature = {"tt", "t"}, .rank = rank, .prepare = prepare_nothing});
  };
  add("a", kStandardRank);
  add("b", kStandardRank + 1);
  add("c", kStandardRank);
  add("d", kStandardRank, "cuda");
  EXPECT_THAT(origins("add", "host"), ElementsAre("b", "a", "c", "libstrata"));
  EXPECT_THAT(origins("add", "cuda"), ElementsAre("d"));
  EXPECT_THAT(origins("add", "tpu"), ElementsAre());
}

TEST_F(Registrations, RefuseKernelsThatAreIncomplete) {
  const auto refusal = [&](KernelDefinition kernel) {
    return message_of<ConfigurationError>([&] { of("plugin a").add(std::move(kernel)); });
  };
  const std::string begin = "plugin a registers a kernel for op 'add': ";
  EXPECT_EQ(refusal({.op = "", .signature = {"t", "t"}, .prepare = prepare_nothing}),
            "plugin a registers a kernel for op '': it names no op");
  EXPECT_EQ(refusal({.op = "add", .runtime = "", .signature = {"t", "t"}, .prepare = prepare_nothing}),
            begin + "it names no runtime");
  EXPECT_EQ(refusal({.op = "add", .signature = {"t", "t"}, .prepare = {}}), begin + "it has no function 'prepare'");
  EXPECT_EQ(refusal({.op = "add", .signature = {"tx", "t"}, .prepare = prepare_nothing}),
            begin + "its signature has the letter 'x'; accepted: t, r, f, i, b, d, s");
  EXPECT_EQ(refusal({.op = "add", .signature = {"t*t", "t"}, .prepare = prepare_nothing}),
            begin + "its signature has the letter '*'; accepted: t, r, f, i, b, d, s");
  EXPECT_EQ(refusal({.op = "add", .signature = {"t", "*"}, .prepare = prepare_nothing}),
            begin + "its signature has no letter before '*'");
  EXPECT_THAT(origins("add", "host"), ElementsAre("libstrata"));
}

/// A result in another type is converted by the kernel for `cast`, so that kernel must not need a conversion itself.
TEST_F(Registrations, AConversionThatNeedsItselfIsNotTaken) {
  OpInstance cast;
  cast.op = cast.name = ops::kCast;
  cast.operands = {{DType::bf16, {"n"}, {2}}};
  cast.results = {{DType::f32, {"n"}, {2}}};
  of("plugin a").add({.op = ops::kCast, .signature = {"t", "t"}, .prepare = prepare_nothing});
  const KernelEnvironment environment("host", 1);
  EXPECT_EQ(KernelSelector("the device", kernels_, environment).choice(cast).value().origin, "libstrata");
  KernelRegistry alone;
  alone.add({.op = ops::kCast, .signature = {"t", "t"}, .prepare = prepare_nothing}, "plugin a");
  EXPECT_EQ(KernelSelector("the device", alone, environment).unsupported(cast),
            "the device's 'cast' (cast): leaves result 0 in bf16, which it is to convert");
}

/// The handle of a library is made once for all kernels of a device, and released with the last of them.
TEST(KernelEnvironment, SharesOneObjectOfAType) {
  const KernelEnvironment environment("host", 1);
  int made = 0;
  const std::function<std::shared_ptr<int>()> make = [&] { return std::make_shared<int>(++made); };
  std::shared_ptr<int> first = environment.shared<int>(make);
  std::shared_ptr<int> second = environment.shared<int>(make);
  EXPECT_EQ(first, second);
  EXPECT_EQ(*environment.shared<long>([] { return std::make_shared<long>(7); }), 7);
  const std::weak_ptr<int> handle = first;
  first.reset();
  EXPECT_FALSE(handle.expired());
  second.reset();
  EXPECT_TRUE(handle.expired());
  EXPECT_EQ(*environment.shared<int>(make), 2);
}

/// An op whose functions throw any type.
class Faulty final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "faulty"; }
  [[nodiscard]] std::string documentation() const override { return "x -> an error"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& /*node*/) const override { throw 42; }
  [[nodiscard]] IterationSpace iteration(const Graph& /*graph*/, const Node& /*node*/) const override { return {}; }
  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& /*context*/) { throw std::out_of_range("too far"); };
  }
  [[nodiscard]] Cost cost(const Graph& /*graph*/, const Node& /*node*/) const override {
    throw VerificationError("no cost is known");
  }
  [[nodiscard]] std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& /*pair*/) -> std::optional<Attributes> { throw std::out_of_range("no fit"); };
    return {{.producer = "linear", .consumer = "add", .fit = fit}};
  }
};

/// A gradient context that is never called.
class NoContext final : public GradientContext {
 public:
  [[nodiscard]] const Graph& graph() const override { return graph_; }
  [[nodiscard]] const Node& node() const override { return node_; }
  [[nodiscard]] std::optional<Value> cotangent(int /*index*/) override { return std::nullopt; }
  [[nodiscard]] bool needs_gradient(int /*operand*/) const override { return false; }
  std::vector<Value> emit(int /*operand*/, const std::string& /*op*/, std::vector<Value> /*operands*/,
                          Attributes /*attributes*/) override {
    return {};
  }
  void contribute(int /*operand*/, Value /*gradient*/) override {}

 private:
  Graph graph_;
  Node node_;
};

TEST_F(Registrations, WhateverAnOpOfAPluginThrowsIsNamed) {
  of("plugin a").add(std::make_unique<Faulty>());
  const OpDefinition& op = ops_.get("faulty");
  const Graph graph;
  Node node;
  node.name = "x";
  node.operands.resize(2);
  EXPECT_EQ(message_of<VerificationError>([&] { (void)op.infer(graph, node); }),
            "op 'faulty' of plugin a: hook 'infer' threw an exception of type int");
  EXPECT_EQ(message_of<VerificationError>([&] { (void)op.cost(graph, node); }),
            "op 'faulty' of plugin a: hook 'cost': no cost is known");
  NoContext context;
  EXPECT_EQ(message_of<VerificationError>([&] { op.gradient()(context); }),
            "op 'faulty' of plugin a: hook 'gradient' threw std::out_of_range: too far");
  EXPECT_EQ(message_of<VerificationError>([&] { (void)op.iteration(graph, node); }),
            "op 'faulty' of plugin a: iteration names the dimensions of 0 operands; node 'x' has 2");
  const Attributes none;
  const std::vector<Dims> dims;
  EXPECT_EQ(message_of<VerificationError>([&] {
              (void)op.fusions().at(0).fit({none, none, dims, dims});
            }),
            "op 'faulty' of plugin a: hook 'fusions' threw std::out_of_range: no fit");
}

/// A fused op whose pattern throws.
class WithoutFit final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "without_fit"; }
  [[nodiscard]] std::string documentation() const override { return "x -> x"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& /*node*/) const override {
    return {};
  }
  [[nodiscard]] std::vector<FusionPattern> fusions() const override {
    return {{.producer = "linear", .consumer = "add", .fit = {}}};
  }
};

TEST_F(Registrations, APatternWithoutAFunctionIsNamed) {
  of("plugin a").add(std::make_unique<WithoutFit>());
  EXPECT_EQ(message_of<VerificationError>([&] { (void)ops_.get("without_fit").fusions(); }),
            "op 'without_fit' of plugin a: a pattern of fusions has no function 'fit'");
}

/// An op of which a node costs any number of flops.
class Priced final : public OpDefinition {
 public:
  explicit Priced(double flops) : flops_(flops) {}
  [[nodiscard]] std::string name() const override { return "priced"; }
  [[nodiscard]] std::string documentation() const override { return "x -> x"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& /*node*/) const override {
    return {};
  }
  [[nodiscard]] Cost cost(const Graph& /*graph*/, const Node& /*node*/) const override { return {flops_, 8}; }

 private:
  double flops_;
};

TEST_F(Registrations, ACostThatIsNoCostIsNamed) {
  for (const auto& [flops, text] : {std::pair{-1.0, "-1.000000"}, std::pair{std::nan(""), "nan"}}) {
    OpRegistry ops;
    Registration(ops, kernels_, "plugin a").add(std::make_unique<Priced>(flops));
    Node node;
    node.name = "x";
    EXPECT_EQ(message_of<VerificationError>([&] { (void)ops.get("priced").cost(Graph{}, node); }),
              "op 'priced' of plugin a: cost gives " + std::string(text) +
                  " flops and 8.000000 bytes for node 'x'; accepted: finite numbers of at least 0");
  }
}

}  // namespace
}  // namespace strata
