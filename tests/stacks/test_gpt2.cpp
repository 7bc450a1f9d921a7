#include <gtest/gtest.h>

#include "reports/program_summary.hpp"
#include "stack_configuration.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"
#include "strata/registration.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::testing {
namespace {

class Gpt2Model : public ::testing::Test {
 protected:
  Gpt2Model() : factory_(plugins_.load<ModelFactory>("gpt2")) { register_core(registry_, kernels_); }

  [[nodiscard]] Graph build(const std::map<std::string, OptionValue>& given, DType float_type = DType::f32) {
    const Options options(factory_.options(), given);
    const auto model = factory_.create(options);
    Graph graph;
    graph.sizes = model->sizes();
    graph.sizes.insert({{"batch", 1}, {"vocab", 256}});
    GraphBuilder builder(graph, registry_, GraphMode::training, float_type);
    model->build(builder);
    verify(graph, registry_, "building");
    return graph;
  }

  BuiltPlugins plugins_;
  OpRegistry registry_;
  KernelRegistry kernels_;
  const ModelFactory& factory_;
};

TEST_F(Gpt2Model, HasThePublishedNumbersOfParameters) {
  const auto parameters = [&](const char* size) { return host::parameter_count(build({{"size", std::string(size)}})); };
  EXPECT_EQ(parameters("gpt2-124m"), 124439808);
  EXPECT_EQ(parameters("gpt2-355m"), 354823168);
  EXPECT_EQ(parameters("gpt2-774m"), 774030080);
  EXPECT_EQ(parameters("gpt2-1558m"), 1557611200);
}

TEST_F(Gpt2Model, FieldsOverrideASize) {
  const Graph graph =
      build({{"size", std::string("gpt2-124m")}, {"layers", std::int64_t{2}}, {"vocab", std::int64_t{64}}});
  EXPECT_EQ(graph.block_count(), 4);
  EXPECT_EQ(graph.sizes.at("vocab"), 64);
  EXPECT_EQ(graph.sizes.at("embed"), 768);
}

TEST_F(Gpt2Model, DecaysMatricesOnlyAndStartsAsPublished) {
  const Graph graph = build({{"layers", std::int64_t{8}}, {"embed", std::int64_t{32}}, {"heads", std::int64_t{2}}});
  for (const Parameter& parameter : graph.parameters) {
    const bool is_vector = parameter.name.ends_with(".bias") || parameter.name.find("ln_") != std::string::npos;
    EXPECT_EQ(parameter.decay, !is_vector) << parameter.name;
    if (parameter.name.ends_with("c_proj.weight")) {
      EXPECT_DOUBLE_EQ(parameter.initialization.value, 0.02 / 4) << parameter.name;
    } else if (!is_vector) {
      EXPECT_DOUBLE_EQ(parameter.initialization.value, 0.02) << parameter.name;
    }
  }
}

TEST_F(Gpt2Model, CostsSixFlopsAParameterAndTokenAndAttention) {
  const std::int64_t layers = 4;
  const std::int64_t embed = 64;
  const std::int64_t context = 32;
  Graph graph = build({{"layers", layers},
                       {"embed", embed},
                       {"heads", std::int64_t{4}},
                       {"context", context},
                       {"vocab", std::int64_t{128}}});
  differentiate(graph, registry_);
  const double products = 6.0 * static_cast<double>(layers * 12 * embed * embed + 128 * embed);
  // Causal: forward 2 products of s·e multiply-adds, halved; backward 5.
  const double attention = static_cast<double>(layers * context * embed) * (2 + 5);
  EXPECT_NEAR(host::flops_per_token(graph, registry_) / (products + attention), 1, 0.02);
}

TEST_F(Gpt2Model, AWindowCostsTheKeysThatItLeaves) {
  const auto flops = [&](std::int64_t window) {
    Graph graph = build({{"layers", std::int64_t{1}},
                         {"embed", std::int64_t{64}},
                         {"heads", std::int64_t{4}},
                         {"context", std::int64_t{64}},
                         {"vocab", std::int64_t{128}},
                         {"window", window}});
    double sum = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op == "attention") sum += registry_.get(node.op).cost(graph, node).flops;
    }
    return sum;
  };
  // Of 64 queries the first eight see 1, 2, … 8 keys, the others 8; without a window they see 32 on average.
  EXPECT_NEAR(flops(8) / flops(0), (8.0 - 8.0 * 7 / 2 / 64) / 32, 1e-12);
  EXPECT_EQ(flops(64), flops(0));
}

/// The loss and the gradients of GPT-2 for one window of tokens.
class Gpt2Window {
 public:
  Gpt2Window(Graph graph, const OpRegistry& registry, Device& device) : graph_(std::move(graph)) {
    differentiate(graph_, registry);
    decompose(graph_, registry);
    evaluator_ = std::make_unique<host::GraphEvaluator>(graph_, registry, device);
    for (const Parameter& parameter : graph_.parameters) {
      std::vector<double> values;
      const std::uint64_t key = random::stream_key(1, parameter.name, 0);
      for (std::int64_t i = 0; i < element_count(graph_.shape(parameter.value)); ++i) {
        values.push_back(0.3 * random::normal(key, static_cast<std::uint64_t>(i)));
      }
      evaluator_->set(parameter.name, values);
    }
  }

  void run(const std::map<std::string, std::vector<double>>& inputs) {
    for (const auto& [name, values] : inputs) evaluator_->set(name, values);
    evaluator_->run();
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] double loss() const { return evaluator_->loss(); }
  [[nodiscard]] std::vector<double> gradient(const std::string& name) const {
    return evaluator_->parameter_gradient(name);
  }

 private:
  Graph graph_;
  std::unique_ptr<host::GraphEvaluator> evaluator_;
};

/// Documents of 4 and 6 tokens in one window train like each document alone at the beginning of a window.
TEST_F(Gpt2Model, PackedDocumentsTrainAsEachAlone) {
  const auto& devices = plugins_.load<DeviceFactory>("reference");
  const auto device = devices.create(Options(devices.options(), {}), {.kernels = &kernels_});
  for (const std::int64_t window : {0, 3}) {
    const auto window_of = [&](bool documents) {
      return Gpt2Window(build({{"layers", std::int64_t{2}},
                               {"embed", std::int64_t{8}},
                               {"heads", std::int64_t{2}},
                               {"context", std::int64_t{10}},
                               {"vocab", std::int64_t{16}},
                               {"dropout", 0.0},
                               {"window", window},
                               {"documents", documents}},
                              DType::f64),
                        registry_, *device);
    };
    Gpt2Window packed = window_of(true);
    Gpt2Window first = window_of(false);
    Gpt2Window second = window_of(false);
    const std::vector<double> positions{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    packed.run({{"tokens", {1, 2, 3, 4, 11, 12, 13, 14, 15, 5}},
                {"targets", {2, 3, 4, -1, 12, 13, 14, 15, 5, 6}},
                {"positions", {0, 1, 2, 3, 0, 1, 2, 3, 4, 5}},
                {"documents", {0, 0, 0, 0, 1, 1, 1, 1, 1, 1}}});
    first.run({{"tokens", {1, 2, 3, 4, 0, 0, 0, 0, 0, 0}},
               {"targets", {2, 3, 4, -1, -1, -1, -1, -1, -1, -1}},
               {"positions", positions}});
    second.run({{"tokens", {11, 12, 13, 14, 15, 5, 0, 0, 0, 0}},
                {"targets", {12, 13, 14, 15, 5, 6, -1, -1, -1, -1}},
                {"positions", positions}});
    EXPECT_NEAR(packed.loss(), first.loss() + second.loss(), 1e-12);
    for (const Parameter& parameter : packed.graph().parameters) {
      const std::vector<double> together = packed.gradient(parameter.name);
      const std::vector<double> one = first.gradient(parameter.name);
      const std::vector<double> other = second.gradient(parameter.name);
      ASSERT_EQ(together.size(), one.size());
      for (std::size_t i = 0; i < together.size(); ++i) {
        ASSERT_NEAR(together[i], one[i] + other[i], 1e-12) << parameter.name << " " << i;
      }
    }
  }
}

TEST_F(Gpt2Model, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THROW((void)build({{"heads", std::int64_t{5}}, {"embed", std::int64_t{64}}}), ConfigurationError);
}

TEST_F(Gpt2Model, ShrinksButStaysDivisible) {
  const Options options(factory_.options(), {{"size", std::string("gpt2-1558m")}});
  const Options small = factory_.shrink(options, {{{"heads", 4}, {"ffn", 8}, {"vocab", 6}, {"seq", 12}}, false});
  const auto model = factory_.create(small);
  Graph graph;
  graph.sizes = model->sizes();
  graph.sizes["batch"] = 1;
  GraphBuilder builder(graph, registry_, GraphMode::training, DType::f64);
  model->build(builder);
  EXPECT_EQ(graph.sizes.at("heads") % 4, 0);
  EXPECT_EQ(graph.sizes.at("ffn") % 8, 0);
  EXPECT_EQ(graph.sizes.at("vocab") % 6, 0);
  EXPECT_EQ(graph.sizes.at("seq") % 12, 0);
  EXPECT_LT(host::parameter_count(graph), 20000);
}

}  // namespace
}  // namespace strata::testing
