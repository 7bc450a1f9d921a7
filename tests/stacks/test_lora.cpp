#include <gmock/gmock.h>

#include "lora_stack.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

const std::string kAttentionTargets = "targets = [\"*.q_proj.weight\", \"*.v_proj.weight\", \"*.o_proj.weight\"]\n";
/// Adapters with a gradient that is large enough to be clipped.
const std::string kLora = table("lora", "rank = 3\nalpha = 60.0\n");
/// The embedding and the head of a tied model, and biases and norms.
const std::string kLoraOfEmbedding =
    table("lora", "rank = 3\nalpha = 60.0\ntargets = [\"*embed_tokens*\", \"*_proj.weight\"]\ntrain = [\"*norm*\"]\n");

struct LoraRow {
  StackRow stack;
  ModelOptions options = {};
};

void PrintTo(const LoraRow& row, std::ostream* out) { PrintTo(row.stack, out); }

class LoraStack : public ::testing::TestWithParam<LoraRow> {};

TEST_P(LoraStack, TrainsAsOneRank) {
  const host::PluginSection model = lora_model(GetParam().options);
  expect_trains_as_one_rank(GetParam().stack, &model);
}

const std::string kLoraDropout = table("lora", "rank = 2\nalpha = 60.0\ndropout = 0.2\n" + kAttentionTargets);
const ModelOptions kTied = {{"tied", std::string("yes")}, {"qkv_bias", std::string("yes")}};

INSTANTIATE_TEST_SUITE_P(
    Rows, LoraStack,
    ::testing::Values(
        LoraRow{{"alone", kLora, 1}}, LoraRow{{"ddp_dropout", table("ddp", 2) + kLoraDropout, 2}},
        LoraRow{{"lora_first", kLoraDropout + table("ddp", 2), 2}},
        LoraRow{{"zero1", table("zero", 2, "stage = 1\n") + kLora, 2}},
        LoraRow{{"zero2", table("zero", 2, "stage = 2\n") + kLora, 2}},
        LoraRow{{"zero3_offload",
                 table("zero", 2, "stage = 3\noffload_param = \"host\"\noffload_optimizer = \"host\"\n") + kLora, 2}},
        LoraRow{{"tensor", table("tensor", 2) + kLora, 2}},
        LoraRow{{"tensor_sequence_tied", table("tensor", 4, kSequenceParallel) + kLoraOfEmbedding, 4}, kTied},
        LoraRow{{"pipeline_tied", table("pipeline", 2) + kLoraOfEmbedding, 2}, kTied},
        LoraRow{{"zero_bubble", table("pipeline", 2, "schedule = \"zb-h1\"\n") + kLora, 2}},
        LoraRow{{"ring", table("context", 2) + kLoraDropout, 2}},
        LoraRow{{"ulysses", table("context", 2, "attention = \"ulysses\"\n") + kLora, 2}},
        LoraRow{{"local_sgd", table("localsgd", 2, "steps = 2\n") + kLora, 2}},
        LoraRow{{"compress", table("compress", 2, "method = \"powersgd\"\nrank = 1\nsmallest = 0\n") + kLora, 2}},
        LoraRow{{"two_ranks_of_adapters",
                 table("tensor", 2) + table("lora", "rank = 3\nalpha = 60.0\n" + kAttentionTargets) +
                     table("lora", "rank = 1\nrank_stabilized = true\ninit = \"normal\"\ntargets = [\"*.mlp.*\"]\n"),
                 2}},
        LoraRow{{"zero3_pipeline_tensor_recompute_precision",
                 table("precision", "") + table("zero", 2, "stage = 3\n") + table("pipeline", 2) +
                     table("tensor", 2, kSequenceParallel) + table("recompute", "") + kLora,
                 8}}),
    [](const auto& info) { return info.param.stack.name; });

TEST(Lora, BeginsAsTheBaseModelAndLeavesItUntouched) {
  const host::StackResult base = train_lora_model("", 1);
  const host::StackResult start = train_lora_model(kLora, 0);
  const host::StackResult trained = train_lora_model(kLora, 3);
  EXPECT_EQ(trained.losses.front(), base.losses.front());
  int adapters = 0;
  for (const auto& [name, values] : trained.parameters) {
    const bool is_adapter = name.find(".lora_") != std::string::npos;
    adapters += is_adapter ? 1 : 0;
    EXPECT_EQ(values == start.parameters.at(name), !is_adapter) << name;
  }
  EXPECT_EQ(adapters, 2 * (2 * 7 + 1));
}

/// Decay of adapters pulls the model towards its base.
TEST(Lora, AdaptersDecayOnlyIfAsked) {
  for (const bool asked : {false, true}) {
    const std::string option = asked ? "decay = true\n" : "";
    const host::Compiled compiled = compile_training(lora_configuration(table("lora", option)));
    int adapters = 0;
    for (const StoredParameter& parameter : compiled.program(0).parameters) {
      if (parameter.role != ParameterRole::trained) continue;
      EXPECT_EQ(parameter.decay, asked) << parameter.name;
      ++adapters;
    }
    EXPECT_GT(adapters, 0);
  }
}

TEST(Lora, KeepsOptimizerStatesOfAdaptersOnly) {
  const host::Compiled compiled = compile_training(lora_configuration(kLora));
  const host::Compiled whole = compile_training(lora_configuration(""));
  const Program& program = compiled.program(0);
  for (const StoredParameter& parameter : program.parameters) {
    const bool is_adapter = parameter.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(parameter.states.size(), is_adapter ? 2 : 0) << parameter.name;
  }
  EXPECT_LT(compiled.plan(0).arena_bytes, whole.plan(0).arena_bytes);
}

TEST(Lora, HasFactorsOfTheSidesOfEachMatrix) {
  const Graph& graph =
      compile_training(lora_configuration(table("lora", "rank = 3\nalpha = 6\n" + kAttentionTargets))).graph;
  const std::string layer = "model.layers.0.self_attn.";
  const auto dims = [&](const std::string& name) {
    return join(graph.type(graph.find_parameter(layer + name)->value).dims);
  };
  EXPECT_EQ(dims("q_proj.lora_A.weight"), "embed lora_rank");
  EXPECT_EQ(dims("q_proj.lora_B.weight"), "lora_rank kv_heads group head_dim");
  EXPECT_EQ(dims("o_proj.lora_A.weight"), "kv_heads group head_dim lora_rank");
  EXPECT_EQ(dims("o_proj.lora_B.weight"), "lora_rank embed");
  ASSERT_EQ(graph.low_rank_terms.size(), 6);
  const LowRankTerm term{.parameter = layer + "q_proj.weight",
                         .a = layer + "q_proj.lora_A.weight",
                         .b = layer + "q_proj.lora_B.weight",
                         .rank = "lora_rank",
                         .scale = 2,
                         .is_matrix = true};
  EXPECT_THAT(graph.low_rank_terms, ::testing::Contains(term));
}

TEST(Lora, FreezesAdaptersOfFrozenGroups) {
  host::RunConfiguration configuration = lora_configuration(kLora);
  configuration.optimizer.groups.push_back({.optimizer = {}, .parameters = {"*.lora_A.*"}, .frozen = true});
  const host::Compiled compiled = compile_training(configuration);
  for (const StoredParameter& parameter : compiled.program(0).parameters) {
    const bool is_trained = parameter.name.find(".lora_B.") != std::string::npos;
    EXPECT_EQ(parameter.states.empty(), !is_trained) << parameter.name;
  }
}

TEST(Lora, RefusesPatternsThatDoNotFit) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {table("lora", "targets = [\"*.q_porj.weight\"]\n"),
       "strategy.0.targets: found \"*.q_porj.weight\", which matches no parameter"},
      {table("lora", "train = [\"head\"]\n"), "strategy.0.train: found \"head\", which matches no parameter"},
      {table("lora", "targets = [\"*norm.weight\"]\n"), "reads it as an operand of rms_norm"},
      {table("lora", "targets = [\"*.q_proj.*\"]\ntrain = [\"*_proj.weight\"]\n"), "here and in `targets`"},
      {kLora + table("lora", "targets = [\"*.q_proj.weight\"]\n"), "which has adapters of an earlier strategy"},
      {kLora + kLora, "strategy.1.targets: found none, and no parameter without adapters is left"},
      {kLora + table("lora", "train = [\"*norm*\"]\n"), "an earlier lora strategy has frozen the model"}};
  for (const auto& [strategies, message] : rows) {
    try {
      static_cast<void>(compile_training(lora_configuration(strategies)));
      ADD_FAILURE() << message;
    } catch (const ConfigurationError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace strata::testing
