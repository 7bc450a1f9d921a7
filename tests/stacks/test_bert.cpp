#include <gmock/gmock.h>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

using Given = std::map<std::string, OptionValue>;

TEST(BertModel, HasThePublishedNumbersOfParameters) {
  BuiltPlugins plugins;
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  const auto& factory = plugins.load<ModelFactory>("bert");
  const auto parameters = [&](const std::string& size, std::int64_t classes) {
    const auto model = factory.create(
        Options(factory.options(), {{"size", size}, {"vocab", std::int64_t{30522}}, {"classes", classes}}));
    Graph graph;
    graph.sizes = model->sizes();
    graph.sizes["batch"] = 1;
    GraphBuilder builder(graph, registry, GraphMode::training, DType::f32);
    model->build(builder);
    verify(graph, registry, "building");
    return host::parameter_count(graph);
  };
  // Those of transformers' BertForMaskedLM and BertForSequenceClassification.
  EXPECT_EQ(parameters("bert-base", 0), 109514298);
  EXPECT_EQ(parameters("bert-base", 2), 109483778);
  EXPECT_EQ(parameters("bert-large", 0), 335174458);
}

struct BertRow {
  StackRow stack;
  /// Classes of a classification, or 0.
  std::int64_t classes = 0;
};

void PrintTo(const BertRow& row, std::ostream* out) { PrintTo(row.stack, out); }

class BertStack : public ::testing::TestWithParam<BertRow> {};

TEST_P(BertStack, TrainsAsOneRank) {
  const BertRow& row = GetParam();
  const host::PluginSection model{"model",
                                  "bert",
                                  {{"layers", std::int64_t{2}},
                                   {"heads", std::int64_t{2}},
                                   {"embed", std::int64_t{16}},
                                   {"context", std::int64_t{8}},
                                   {"vocab", std::int64_t{16}},
                                   {"classes", row.classes}}};
  const Given masked{{"path", std::string("none")}, {"mask_token", std::int64_t{3}}};
  const Given sentences{{"path", std::string("none")},
                        {"labels", std::string("none")},
                        {"first_token", std::int64_t{1}},
                        {"last_token", std::int64_t{2}}};
  const host::PluginSection dataset{"data", row.classes > 0 ? "sentences" : "masked",
                                    row.classes > 0 ? sentences : masked};
  StackRow stack = row.stack;
  stack.clip = 0.05;
  expect_trains_as_one_rank(stack, &model, &dataset);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BertStack,
    ::testing::Values(
        BertRow{{"ddp", table("ddp", 2), 2}}, BertRow{{"classes_ddp", table("ddp", 2), 2}, 2},
        // The gradients of two classes are equal but for their sign and rounding.
        BertRow{{"two_classes_largest", table("zero", 2) + table("compress", 2, "method = \"topk\"\n"), 4, 8, 1}, 2},
        BertRow{{"tensor", table("tensor", 2, kSequenceParallel), 2}},
        BertRow{{"classes_tensor", table("tensor", 2, kSequenceParallel), 2}, 4},
        BertRow{{"pipeline", table("pipeline", 4), 4}}, BertRow{{"ring", table("context", 2), 2}},
        BertRow{{"classes_ring", table("context", 2), 2}, 2},
        BertRow{{"ulysses", table("context", 2, "attention = \"ulysses\"\n"), 2}},
        BertRow{{"zero3_pipeline_tensor_recompute",
                 table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("tensor", 2, kSequenceParallel) +
                     table("recompute", ""),
                 8},
                3}),
    [](const auto& info) { return info.param.stack.name; });

}  // namespace
}  // namespace strata::testing
