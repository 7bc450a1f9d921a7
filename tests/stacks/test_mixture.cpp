#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reports/program_summary.hpp"
#include "simulate/kernel_work.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

using Given = std::map<std::string, OptionValue>;

host::PluginSection mixture(Given changes = {}) {
  Given options{{"layers", std::int64_t{2}},  {"heads", std::int64_t{2}}, {"embed", std::int64_t{16}},
                {"context", std::int64_t{8}}, {"ffn", std::int64_t{12}},  {"vocab", std::int64_t{16}},
                {"experts", std::int64_t{6}}, {"balance_loss", 0.1},      {"z_loss", 0.1}};
  for (auto& [name, value] : changes) options[name] = value;
  return {"model", "mixture", std::move(options)};
}

TEST(MixtureModel, HasThePublishedNumbersOfParameters) {
  BuiltPlugins plugins;
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  const auto& factory = plugins.load<ModelFactory>("mixture");
  const auto parameters = [&](const std::string& size) {
    const auto model = factory.create(Options(factory.options(), {{"size", size}}));
    Graph graph;
    graph.sizes = model->sizes();
    graph.sizes["batch"] = 1;
    GraphBuilder builder(graph, registry, GraphMode::training, DType::f32);
    model->build(builder);
    verify(graph, registry, "building");
    return host::parameter_count(graph);
  };
  // Those of transformers' MixtralForCausalLM, OlmoeForCausalLM and Qwen3MoeForCausalLM.
  EXPECT_EQ(parameters("mixtral-8x7b"), 46702792704);
  EXPECT_EQ(parameters("olmoe-1b-7b"), 6919161856);
  EXPECT_EQ(parameters("qwen3-30b-a3b"), 30532122624);
}

struct MixtureRow {
  StackRow stack;
  Given model = {};
};

void PrintTo(const MixtureRow& row, std::ostream* out) { PrintTo(row.stack, out); }

class MixtureStack : public ::testing::TestWithParam<MixtureRow> {};

TEST_P(MixtureStack, TrainsAsOneRank) {
  const host::PluginSection model = mixture(GetParam().model);
  StackRow stack = GetParam().stack;
  stack.clip = 0.05;
  expect_trains_as_one_rank(stack, &model);
}

// Large steps, so that the bias changes most choices after the first step.
const Given kBias{{"balance_bias", 0.03}, {"scores", std::string("sigmoid")}, {"balance_loss", 0.0}};

const Given kSwitch{{"switch_loss", 0.3}, {"balance_loss", 0.0}};

// Experts and dense parameters lie on different axes, where the experts' axis is one of the dense parameters', too.
INSTANTIATE_TEST_SUITE_P(
    Rows, MixtureStack,
    ::testing::Values(
        MixtureRow{{"expert", table("expert", 2), 2}},
        MixtureRow{{"expert_of_each_rank", table("expert", 3), 3, 12, 1}, {{"experts", std::int64_t{3}}}},
        MixtureRow{
            {"one_choice", table("expert", 2), 2},
            {{"choices", std::int64_t{1}}, {"normalize", std::string("yes")}, {"balance_loss", 0.0}, {"z_loss", 0.0}}},
        MixtureRow{{"router_of_one_choice", table("expert", 2), 2},
                   {{"choices", std::int64_t{1}}, {"balance_loss", 0.0}, {"z_loss", 0.0}}},
        MixtureRow{{"all_experts", table("expert", 2), 2}, {{"choices", std::int64_t{6}}}},
        MixtureRow{
            {"shared_sigmoid", table("expert", 2) + table("tensor", 2, kSequenceParallel), 4},
            {{"shared_ffn", std::int64_t{4}}, {"scores", std::string("sigmoid")}, {"normalize", std::string("no")}}},
        MixtureRow{{"chunks", table("expert", 2, "chunks = 4\n"), 2}},
        MixtureRow{{"chunks_of_one_choice", table("expert", 3, "chunks = 3\n"), 3, 12, 1},
                   {{"experts", std::int64_t{3}}, {"choices", std::int64_t{1}}}},
        MixtureRow{{"chunks_over_the_tensor_axis",
                    table("tensor", 2, kSequenceParallel) + table("expert", "over = \"tp\"\nchunks = 2\n"), 2}},
        MixtureRow{{"chunks_with_all_others",
                    table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("context", 2) +
                        table("expert", 2, "chunks = 2\n") + table("recompute", ""),
                    16}},
        MixtureRow{{"chunks_zero_bubble",
                    table("pipeline", 2, "schedule = \"zb-h1\"\n") + table("expert", 2, "chunks = 2\n"), 4}},
        MixtureRow{{"ddp_expert", table("ddp", 2) + table("expert", 2), 4}},
        MixtureRow{{"expert_tensor", table("expert", 2) + table("tensor", 2), 4}},
        MixtureRow{{"experts_over_the_tensor_axis",
                    table("tensor", 2, kSequenceParallel) + table("expert", "over = \"tp\"\n"), 2}},
        MixtureRow{{"zero3_expert", table("zero", 2, "stage = 3\n") + table("expert", 2), 4}},
        MixtureRow{{"pipeline_expert", table("pipeline", 2) + table("expert", 2), 4}},
        MixtureRow{{"zero_bubble_expert", table("pipeline", 2, "schedule = \"zb-h1\"\n") + table("expert", 2), 4}},
        MixtureRow{{"context_expert", table("context", 2) + table("expert", 2), 4}},
        MixtureRow{{"expert_recompute", table("expert", 2) + table("recompute", ""), 2}},
        MixtureRow{{"bias_ddp", table("ddp", 2) + table("expert", 2), 4}, kBias},
        MixtureRow{{"bias_zero1", table("zero", 2), 2}, kBias},
        MixtureRow{{"bias_zero2_tensor", table("zero", 2, "stage = 2\n") + table("tensor", 2, kSequenceParallel), 4},
                   kBias},
        MixtureRow{
            {"bias_zero3_pipeline",
             table("zero", 2, "stage = 3\n") + table("pipeline", 2, "schedule = \"zb-h1\"\n") + table("recompute", ""),
             4},
            kBias},
        MixtureRow{{"bias_context", table("context", 2) + table("dataparallel", 2), 4}, kBias},
        MixtureRow{{"switch_ddp", table("ddp", 2) + table("expert", 2), 4}, kSwitch},
        MixtureRow{{"switch_zero3_pipeline",
                    table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("recompute", ""), 4},
                   kSwitch},
        MixtureRow{{"switch_context_tensor", table("context", 2) + table("tensor", 2, kSequenceParallel), 4}, kSwitch},
        MixtureRow{{"everything",
                    table("zero", 2, "stage = 1\n") + table("context", 2) + table("expert", 2) +
                        table("tensor", 2, kSequenceParallel),
                    16}}),
    [](const auto& info) { return info.param.stack.name; });

/// Collectives of tokens and of results, with marks, in a step.
struct RoutedTraffic {
  int calls = 0;
  double bytes = 0;
  std::int64_t largest = 0;
};

RoutedTraffic routed_traffic(const std::string& options) {
  host::RunConfiguration configuration = small_gpt2(table("expert", 2, options), 8, 2);
  configuration.model = mixture();
  const host::Compiled compiled = compile_training(configuration);
  const Program& program = compiled.programs.front();
  RoutedTraffic traffic;
  for (const Task& task : program.tasks) {
    for (const Instruction& each : task.instructions) {
      const auto* collective = each.as<Collective>();
      if (collective == nullptr || collective->marks == 0) continue;
      EXPECT_EQ(collective->marks, 3) << "the experts of a rank";
      ++traffic.calls;
      traffic.bytes += bytes_sent(program, each);
      for (const BufferId id : {each.inputs[0], each.outputs[0]}) {
        traffic.largest = std::max(traffic.largest, program.buffer(id).elements());
      }
    }
  }
  return traffic;
}

/// In each layer tokens travel once forward, and once again, with their gradients, backward. In parts as many bytes
/// travel, and a buffer holds the tokens of one part.
TEST(MixtureProgram, BringsMarkedTokensInParts) {
  constexpr int kLayers = 2;
  constexpr std::int64_t kGathered = 2 * 2 * 8 * 16;
  const RoutedTraffic whole = routed_traffic("");
  EXPECT_EQ(whole.calls, kLayers * (2 + 3));
  EXPECT_EQ(whole.largest, kGathered);
  const RoutedTraffic parts = routed_traffic("chunks = 4\n");
  EXPECT_EQ(parts.calls, 4 * whole.calls);
  EXPECT_EQ(parts.largest, kGathered / 4);
  EXPECT_EQ(parts.bytes, whole.bytes);
  EXPECT_EQ(routed_traffic("chunks = 5\n").calls, parts.calls) << "the largest divisor of 16 rows";
}

/// Operations of the experts of a rank in one micro-batch, as simulations expect them.
double expected_flops(const std::string& strategies) {
  host::RunConfiguration configuration = small_gpt2(strategies, 8, 2);
  configuration.model = mixture();
  const host::Compiled compiled = compile_training(configuration);
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  double flops = 0;
  for (const Task& task : compiled.programs.front().tasks) {
    for (const Instruction& each : task.instructions) {
      const auto* compute = each.as<Compute>();
      if (compute == nullptr || !registry.get(compute->op).routed_rows()) continue;
      const host::KernelWork work = host::kernel_work(registry, compiled.programs.front(), each);
      flops += work.flops;
      EXPECT_TRUE(work.product.has_value()) << compute->op;
    }
  }
  return flops;
}

/// A rank has the tokens of all ranks, and its part of the choices of each.
TEST(MixtureProgram, CostsWhatItsExpertsAreExpectedToCompute) {
  const double alone = expected_flops(table("ddp", 2));
  // 16 tokens, 2 layers, 2 choices, and 3 products forward, 5 and 6 backward.
  EXPECT_EQ(alone, 2.0 * 16 * 2 * 2 * (3 + 5 + 6) * 16 * 12);
  EXPECT_EQ(expected_flops(table("expert", 2)), alone);
  EXPECT_EQ(expected_flops(table("expert", 2, "chunks = 4\n")), alone);
}

/// Every choice of every token with a target is counted once, whatever shards it. About a fifth of the tokens has none.
TEST(MixtureMetric, IsTheLoadOfTheWholeBatch) {
  for (const std::string& stack : {table("ddp", 2) + table("expert", 2), table("pipeline", 2) + table("context", 2),
                                   table("localsgd", 2, "steps = 2\n")}) {
    host::RunConfiguration configuration = small_gpt2(stack, 8, 2);
    configuration.model = mixture();
    BuiltPlugins plugins;
    const host::Verification verification = host::verify_stack(configuration, plugins, {2, true});
    const std::vector<double>& metrics = verification.stack.metrics;
    EXPECT_EQ(metrics, verification.single.metrics) << stack;
    ASSERT_GE(metrics.size(), 2U * 2U * 6U) << "steps, layers and experts";
    for (auto step = metrics.begin(); step != metrics.end(); step += 12) {
      const double choices = std::accumulate(step, step + 6, 0.0);
      EXPECT_EQ(choices, std::accumulate(step + 6, step + 12, 0.0)) << "the other layer";
      EXPECT_GT(choices, 64) << "of 8 sequences of 8 tokens with 2 choices";
      EXPECT_LT(choices, 128);
    }
  }
}

/// The distance of the loads from their mean, of all experts and layers, in the last 8 of 24 steps.
double unevenness(const Given& options) {
  host::RunConfiguration configuration = small_gpt2(table("ddp", 2), 8, 2);
  configuration.model = mixture(options);
  BuiltPlugins plugins;
  const std::vector<double> loads = host::verify_stack(configuration, plugins, {24, true}).stack.metrics;
  double sum = 0;
  for (std::size_t layer = loads.size() / 3 * 2; layer < loads.size(); layer += 6) {
    const auto begin = loads.begin() + static_cast<std::ptrdiff_t>(layer);
    const double mean = std::accumulate(begin, begin + 6, 0.0) / 6;
    std::for_each(begin, begin + 6, [&](double load) { sum += std::abs(load - mean); });
  }
  return sum;
}

TEST(MixtureBias, EvensTheLoad) {
  const Given alone{{"scores", std::string("sigmoid")}, {"balance_loss", 0.0}, {"z_loss", 0.0}};
  Given biased = alone;
  biased["balance_bias"] = 0.01;
  EXPECT_LT(unevenness(biased), 0.7 * unevenness(alone));
}

struct RefusedRow {
  const char* name;
  Given model;
  std::string strategies;
  const char* message;
};

void PrintTo(const RefusedRow& row, std::ostream* out) { *out << row.name; }

class MixtureRefusal : public ::testing::TestWithParam<RefusedRow> {};

TEST_P(MixtureRefusal, NamesWhatIsAccepted) {
  host::RunConfiguration configuration = small_gpt2(GetParam().strategies, 32, 2);
  configuration.model = mixture(GetParam().model);
  try {
    static_cast<void>(compile_training(configuration));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MixtureRefusal,
    ::testing::Values(
        RefusedRow{
            "more_choices_than_experts", {{"choices", std::int64_t{7}}}, "", "found 7; accepted: 1 to experts = 6"},
        RefusedRow{"more_ranks_than_experts", {}, table("expert", 8), "found 8; accepted: a divisor of the model's 6 "},
        RefusedRow{"switch_loss_of_sigmoids",
                   {{"switch_loss", 0.1}, {"scores", std::string("sigmoid")}},
                   "",
                   "accepted: 0 with scores = \"sigmoid\""},
        RefusedRow{"replicas_apart",
                   {{"balance_bias", 0.1}},
                   table("localsgd", 2),
                   "'model.layers.0.mlp.gate.e_score_correction_bias' follows statistics of the samples of all ranks"},
        RefusedRow{"gradients_apart",
                   {{"switch_loss", 0.1}},
                   table("compress", 2, "method = \"powersgd\"\n"),
                   "'model.layers.0.mlp.gate.switch_loss.score.sum' follows statistics of the samples of all ranks"},
        RefusedRow{"ranks_that_do_not_divide", {}, table("expert", 4), "experts: 1, 2, 3, 6"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
