#include <gtest/gtest.h>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/registration.hpp"

/// \file
/// Models of images.

namespace strata::testing {
namespace {

using Given = std::map<std::string, OptionValue>;

struct PublishedSize {
  const char* plugin;
  const char* size;
  std::int64_t parameters;
};

void PrintTo(const PublishedSize& size, std::ostream* out) { *out << size.size; }

class PublishedModel : public ::testing::TestWithParam<PublishedSize> {};

TEST_P(PublishedModel, HasItsNumberOfParameters) {
  BuiltPlugins plugins;
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  const auto& factory = plugins.load<ModelFactory>(GetParam().plugin);
  const auto model = factory.create(
      Options(factory.options(), {{"size", std::string(GetParam().size)}, {"classes", std::int64_t{1000}}}));
  Graph graph;
  graph.sizes = model->sizes();
  graph.sizes["batch"] = 1;
  GraphBuilder builder(graph, registry, GraphMode::training, DType::f32);
  model->build(builder);
  verify(graph, registry, "building");
  EXPECT_EQ(host::parameter_count(graph), GetParam().parameters);
}

// Those of torchvision.
INSTANTIATE_TEST_SUITE_P(Sizes, PublishedModel,
                         ::testing::Values(PublishedSize{"vit", "vit-b-16", 86567656},
                                           PublishedSize{"vit", "vit-b-32", 88224232},
                                           PublishedSize{"vit", "vit-l-16", 304326632}));

/// A stack over a small model of images.
struct ImageRow {
  StackRow stack;
  /// Options that replace those of the small model.
  Given model = {};
};

void PrintTo(const ImageRow& row, std::ostream* out) { PrintTo(row.stack, out); }

host::PluginSection small_model(const std::string& plugin, Given options, const Given& more) {
  for (const auto& [name, value] : more) options[name] = value;
  return {"model", plugin, std::move(options)};
}

void expect_trains_on_images(const ImageRow& row, const host::PluginSection& model) {
  const host::PluginSection dataset{"data", "images", {{"paths", std::vector<std::string>{"none"}}}};
  StackRow stack = row.stack;
  stack.clip = 0.05;
  expect_trains_as_one_rank(stack, &model, &dataset);
}

class VitStack : public ::testing::TestWithParam<ImageRow> {};

TEST_P(VitStack, TrainsAsOneRank) {
  // One row of seven patches and the class token.
  const Given small{{"layers", std::int64_t{2}},   {"heads", std::int64_t{2}}, {"embed", std::int64_t{16}},
                    {"patch", std::int64_t{2}},    {"image", std::int64_t{2}}, {"width", std::int64_t{14}},
                    {"channels", std::int64_t{2}}, {"dropout", 0.1},           {"attention_dropout", 0.1},
                    {"label_smoothing", 0.1}};
  expect_trains_on_images(GetParam(), small_model("vit", small, GetParam().model));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, VitStack,
    ::testing::Values(ImageRow{{"ddp", table("ddp", 2), 2}},
                      ImageRow{{"tensor", table("tensor", 2, kSequenceParallel), 2}},
                      ImageRow{{"pipeline", table("pipeline", 4), 4}}, ImageRow{{"ring", table("context", 2), 2}},
                      ImageRow{{"ulysses", table("context", 2, "attention = \"ulysses\"\n"), 2}},
                      ImageRow{{"mean_of_patches", table("context", 2), 2},
                               {{"class_token", false}, {"width", std::int64_t{8}}, {"image", std::int64_t{4}}}},
                      ImageRow{{"zero3_pipeline_tensor_recompute",
                                table("zero", 2, "stage = 3\n") + table("pipeline", 2) +
                                    table("tensor", 2, kSequenceParallel) + table("recompute", ""),
                                8}}),
    [](const auto& info) { return info.param.stack.name; });

}  // namespace
}  // namespace strata::testing
