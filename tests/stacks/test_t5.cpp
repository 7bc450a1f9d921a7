#include <gmock/gmock.h>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

using Given = std::map<std::string, OptionValue>;

class T5Model : public ::testing::Test {
 protected:
  T5Model() : factory_(plugins_.load<ModelFactory>("t5")) { register_core(registry_, kernels_); }

  [[nodiscard]] Graph build(const Given& given) {
    const auto model = factory_.create(Options(factory_.options(), given));
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

TEST_F(T5Model, HasThePublishedNumbersOfParameters) {
  // Those of google/t5-v1_1-small, -base and -large.
  for (const auto& [size, parameters] : std::vector<std::pair<const char*, std::int64_t>>{
           {"t5-small", 76961152}, {"t5-base", 247577856}, {"t5-large", 783150080}}) {
    EXPECT_EQ(host::parameter_count(build({{"size", std::string(size)}})), parameters) << size;
  }
}

TEST_F(T5Model, AllBlocksOfAStackReadOneBias) {
  const Graph graph = build({{"layers", std::int64_t{3}}, {"decoder_layers", std::int64_t{2}}});
  std::map<int, int> readers;
  for (const Node& node : graph.nodes()) {
    if (node.op == "attention" && graph.type(node.operands.at(3)).dtype == DType::f32) ++readers[node.operands[3].node];
  }
  std::vector<int> counts;
  for (const auto& [node, count] : readers) counts.push_back(count);
  EXPECT_THAT(counts, ::testing::ElementsAre(3, 2));
}

/// Without it a model that learned to end texts with 3 would be asked with texts that end with 1.
TEST_F(T5Model, GeneratesWithTheTokensOfItsData) {
  host::RunConfiguration configuration = small_gpt2("", 8, 2);
  configuration.model = {
      "model", "t5", {{"vocab", std::int64_t{16}}, {"start_token", std::int64_t{4}}, {"end_token", std::int64_t{5}}}};
  const auto tokens = [&](const std::string& dataset, const Given& given) {
    configuration.data.dataset = {"data", dataset, given};
    const GenerationSource source = host::prepare(configuration, plugins_).generation().source.value();
    return std::pair(source.start, source.end);
  };
  EXPECT_EQ(tokens("tokens", {{"path", std::string("none")}}), std::pair(4, 5));
  EXPECT_EQ(tokens("pairs", {{"path", std::string("none")},
                             {"target_path", std::string("none")},
                             {"start_token", std::int64_t{2}},
                             {"end_token", std::int64_t{3}}}),
            std::pair(2, 3));
}

/// An imported model has no pairs, and gets its inputs from prompts.
TEST_F(T5Model, GeneratesWithoutDataThatFits) {
  host::RunConfiguration configuration = small_gpt2("", 8, 2);
  configuration.model = {"model", "t5", {{"vocab", std::int64_t{16}}, {"layers", std::int64_t{1}}}};
  const host::RunSetup setup = host::prepare(configuration, plugins_);
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  host::CompileRequest request = setup.request(GraphMode::evaluation, setup.sizes_without_data());
  request.device = device.get();
  EXPECT_THROW((void)setup.compile(request), Error);
  request.outputs = {setup.generation().output};
  EXPECT_NO_THROW((void)setup.compile(request));
}

TEST_F(T5Model, CachedScoresHaveTheBitsOfTheWholeDecoder) {
  host::RunConfiguration configuration = small_gpt2("", 8, 2);
  configuration.device = {"device", "reference", {}};
  for (const bool tied : {true, false}) {
    configuration.model = {"model",
                           "t5",
                           {{"vocab", std::int64_t{16}},
                            {"layers", std::int64_t{2}},
                            {"heads", std::int64_t{2}},
                            {"head_dim", std::int64_t{4}},
                            {"embed", std::int64_t{8}},
                            {"ffn", std::int64_t{12}},
                            {"context", std::int64_t{9}},
                            {"target_context", std::int64_t{7}},
                            {"buckets", std::int64_t{4}},
                            {"max_distance", std::int64_t{4}},
                            {"tied", tied}}};
    host::RunSetup setup = host::prepare(configuration, plugins_);
    setup.float_type = DType::f64;
    const host::GenerationVerification found = host::verify_generation(setup);
    EXPECT_EQ(found.missing, "");
    EXPECT_EQ(found.difference, 0);
  }
}

TEST_F(T5Model, RefusesBucketsThatDoNotFit) {
  const auto refusal = [&](const Given& given) -> std::string {
    try {
      (void)factory_.create(Options(factory_.options(), given));
    } catch (const OptionError& error) {
      return error.option() + ": " + error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({{"buckets", std::int64_t{6}}}), "buckets: found 6; accepted: a multiple of 4");
  EXPECT_EQ(refusal({{"max_distance", std::int64_t{16}}}),
            "max_distance: found 16; accepted: above 16, half of the buckets");
}

/// A small T5 with another length of each sequence.
void expect_trains(const StackRow& row, const Given& given = {}) {
  Given options{{"layers", std::int64_t{2}},      {"heads", std::int64_t{2}},          {"head_dim", std::int64_t{4}},
                {"embed", std::int64_t{8}},       {"ffn", std::int64_t{12}},           {"context", std::int64_t{8}},
                {"vocab", std::int64_t{16}},      {"target_context", std::int64_t{4}}, {"buckets", std::int64_t{8}},
                {"max_distance", std::int64_t{8}}};
  for (const auto& [option, value] : given) options[option] = value;
  const host::PluginSection model{"model", "t5", options};
  const host::PluginSection dataset{
      "data", "pairs", {{"path", std::string("none")}, {"target_path", std::string("none")}}};
  expect_trains_as_one_rank(row, &model, &dataset);
}

struct T5Row {
  StackRow stack;
  Given options;
};

void PrintTo(const T5Row& row, std::ostream* out) { PrintTo(row.stack, out); }

class T5Stack : public ::testing::TestWithParam<T5Row> {};

TEST_P(T5Stack, TrainsAsOneRank) { expect_trains(GetParam().stack, GetParam().options); }

const std::string kBoth = "sequences = [\"seq\", \"target_seq\"]\n";

INSTANTIATE_TEST_SUITE_P(
    Rows, T5Stack,
    ::testing::Values(
        T5Row{{"ddp_tied", table("ddp", 2), 2}, {{"tied", true}}},
        T5Row{{"tensor", table("tensor", 2, kSequenceParallel), 2}, {}},
        T5Row{{"pipeline", table("pipeline", 2), 2}, {}},
        // Every block on a stage of its own: the encoder's output and the biases skip stages, and the decoder's inputs
        // are read late.
        T5Row{{"pipeline_blocks_tied", table("pipeline", 7, "schedule = \"1f1b\"\n"), 7}, {{"tied", true}}},
        T5Row{{"pipeline_zero_bubble", table("pipeline", 3, "schedule = \"zb-h1\"\n"), 3}, {{"gated", false}}},
        T5Row{{"pipeline_interleaved", table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 2\n"), 2},
              {}},
        T5Row{{"ring", table("context", 2, kBoth), 2}, {}},
        T5Row{{"gathered", table("context", 2, kBoth + "attention = \"all_gather\"\n"), 2}, {}},
        T5Row{{"ulysses", table("context", 2, kBoth + "attention = \"ulysses\"\n"), 2}, {}},
        // Only the encoder's sequence is sharded.
        T5Row{{"ring_of_encoder", table("context", 2), 2}, {}},
        T5Row{{"zero3_pipeline_tensor_recompute",
               table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("tensor", 2, kSequenceParallel) +
                   table("recompute", ""),
               8},
              {}}),
    [](const auto& info) { return info.param.stack.name; });

}  // namespace
}  // namespace strata::testing
