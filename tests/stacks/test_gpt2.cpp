#include <gtest/gtest.h>

#include "reports/program_summary.hpp"
#include "stack_configuration.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

class Gpt2Model : public ::testing::Test {
 protected:
  Gpt2Model() : factory_(plugins_.load<ModelFactory>("gpt2")) { register_core(registry_, kernels_); }

  [[nodiscard]] Graph build(const std::map<std::string, OptionValue>& given) {
    const Options options(factory_.options(), given);
    const auto model = factory_.create(options);
    Graph graph;
    graph.sizes = model->sizes();
    graph.sizes.insert({{"batch", 1}, {"vocab", 256}});
    GraphBuilder builder(graph, registry_, GraphMode::training, DType::f32);
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

TEST_F(Gpt2Model, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THROW(build({{"heads", std::int64_t{5}}, {"embed", std::int64_t{64}}}), ConfigurationError);
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
