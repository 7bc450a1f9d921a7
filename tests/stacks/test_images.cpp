#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "reports/program_summary.hpp"
#include "simulate/kernel_work.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
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
INSTANTIATE_TEST_SUITE_P(
    Sizes, PublishedModel,
    ::testing::Values(PublishedSize{"vit", "vit-b-16", 86567656}, PublishedSize{"vit", "vit-b-32", 88224232},
                      PublishedSize{"vit", "vit-l-16", 304326632}, PublishedSize{"resnet", "resnet-18", 11689512},
                      PublishedSize{"resnet", "resnet-34", 21797672}, PublishedSize{"resnet", "resnet-50", 25557032}));

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

class ResnetStack : public ::testing::TestWithParam<ImageRow> {};

TEST_P(ResnetStack, TrainsAsOneRank) {
  const Given small{{"layers", std::vector<double>{1, 1}}, {"planes", std::int64_t{4}},
                    {"stem", std::string("cifar")},        {"image", std::int64_t{6}},
                    {"channels", std::int64_t{2}},         {"label_smoothing", 0.1}};
  expect_trains_on_images(GetParam(), small_model("resnet", small, GetParam().model));
}

const Given kBottleneck{{"block", std::string("bottleneck")}};
const Given kLargeStem{{"stem", std::string("imagenet")}, {"image", std::int64_t{18}}};

INSTANTIATE_TEST_SUITE_P(Rows, ResnetStack,
                         ::testing::Values(ImageRow{{"ddp", table("ddp", 2), 2}},
                                           ImageRow{{"ddp_bottleneck", table("ddp", 2), 2}, kBottleneck},
                                           ImageRow{{"ddp_of_one_sample", table("ddp", 4), 4, 8, 1}, kLargeStem},
                                           ImageRow{{"zero1", table("zero", 2), 2}},
                                           ImageRow{{"zero2", table("zero", 2, "stage = 2\n"), 2}},
                                           ImageRow{{"zero3", table("zero", 2, "stage = 3\n"), 2}},
                                           ImageRow{{"single_writer", table("dataparallel", 2), 2}},
                                           ImageRow{{"tensor", table("tensor", 2), 2}},
                                           ImageRow{{"tensor_bottleneck", table("tensor", 2), 2}, kBottleneck},
                                           ImageRow{{"pipeline", table("pipeline", 4), 4}},
                                           ImageRow{{"zero_bubble", table("pipeline", 2, "schedule = \"zb-h1\"\n"), 2}},
                                           ImageRow{{"recompute", table("ddp", 2) + table("recompute", ""), 2}},
                                           ImageRow{{"zero3_pipeline_tensor_recompute",
                                                     table("zero", 2, "stage = 3\n") + table("pipeline", 2) +
                                                         table("tensor", 2) + table("recompute", ""),
                                                     8}}),
                         [](const auto& info) { return info.param.stack.name; });

/// Simulations expect the time of the matrix product that a convolution could be.
TEST(ConvolutionWork, IsThatOfAnEqualProduct) {
  host::RunConfiguration configuration = small_gpt2(table("ddp", 1), 8, 2);
  configuration.model = {"model",
                         "resnet",
                         {{"layers", std::vector<double>{1, 1}},
                          {"planes", std::int64_t{4}},
                          {"stem", std::string("cifar")},
                          {"image", std::int64_t{6}}}};
  configuration.data.dataset = {"data", "images", {{"paths", std::vector<std::string>{"none"}}}};
  const host::Compiled compiled = compile_training(configuration);
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Task& task : compiled.programs.front().tasks) {
    for (const Instruction& each : task.instructions) {
      const auto* compute = each.as<Compute>();
      if (compute == nullptr || !compute->op.starts_with("convolution")) continue;
      const host::KernelWork work = host::kernel_work(registry, compiled.programs.front(), each);
      ASSERT_TRUE(work.product.has_value()) << compute->op;
      if (each.name.starts_with("layer2.0.conv1")) shapes[compute->op] = work.shape();
    }
  }
  // From 4 channels of 6 x 6 pixels to 8 of 3 x 3, of 2 images, with 3 x 3 weights: batch, rows, columns, depth.
  EXPECT_THAT(shapes,
              ::testing::UnorderedElementsAre(
                  ::testing::Pair("convolution", ::testing::ElementsAre(1, 2 * 9, 8, 4 * 9)),
                  ::testing::Pair("convolution_input_gradient", ::testing::ElementsAre(1, 2 * 36, 4, 8 * 9 / 4)),
                  ::testing::Pair("convolution_weight_gradient", ::testing::ElementsAre(1, 4 * 9, 8, 2 * 9))));
}

struct RefusedImages {
  const char* name;
  std::string strategies;
  int micro_batch;
  Given model;
  std::vector<std::string> message;
};

void PrintTo(const RefusedImages& row, std::ostream* out) { *out << row.name; }

class Refusal : public ::testing::TestWithParam<RefusedImages> {};

TEST_P(Refusal, NamesWhatIsAccepted) {
  Given options{{"layers", std::vector<double>{1, 1}},
                {"planes", std::int64_t{4}},
                {"image", std::int64_t{8}},
                {"classes", std::int64_t{3}}};
  for (const auto& [name, value] : GetParam().model) options[name] = value;
  host::RunConfiguration configuration = small_gpt2(GetParam().strategies, 8, GetParam().micro_batch);
  configuration.model = {"model", "resnet", options};
  configuration.data.dataset = {"data", "images", {{"paths", std::vector<std::string>{"none"}}}};
  try {
    static_cast<void>(compile_training(configuration));
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const std::string& part : GetParam().message) EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Refusal,
    ::testing::Values(
        RefusedImages{"one_value_per_channel",
                      table("recompute", ""),
                      1,
                      {},
                      {"op batch_norm 'layer2.0.", "found one value for each channel", "accepted: at least 2 values"}},
        RefusedImages{"replicas_apart",
                      table("localsgd", 2),
                      2,
                      {},
                      {"'localsgd' owns mesh axis", "'bn1.running_mean' follows statistics of the samples of all ranks",
                       "accepted: a model without running averages"}},
        RefusedImages{"gradients_apart",
                      table("compress", 2, "method = \"powersgd\"\n"),
                      2,
                      {},
                      {"'compress' owns mesh axis", "follows statistics of the samples of all ranks"}},
        RefusedImages{"indivisible_channels", table("tensor", 3), 2, {}, {"which shards nothing", "inner1"}},
        RefusedImages{"half_a_block",
                      "",
                      2,
                      {{"layers", std::vector<double>{1.5}}},
                      {"layers", "found 1.5", "accepted: whole numbers"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
