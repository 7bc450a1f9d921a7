#include <gmock/gmock.h>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

class LlamaModel : public ::testing::Test {
 protected:
  LlamaModel() : factory_(plugins_.load<ModelFactory>("llama")) { register_core(registry_, kernels_); }

  [[nodiscard]] Graph build(const std::map<std::string, OptionValue>& given) {
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

TEST_F(LlamaModel, HasThePublishedNumbersOfParameters) {
  const std::vector<std::pair<const char*, std::int64_t>> published{
      {"llama2-7b", 6738415616},  {"llama3-8b", 8030261248}, {"llama3.1-8b", 8030261248},   {"llama3.2-1b", 1235814400},
      {"mistral-7b", 7241732096}, {"qwen2-0.5b", 494032768}, {"qwen3-0.6b", 596049920},     {"smollm2-135m", 134515008},
      {"smollm3-3b", 3075098624}, {"olmo2-1b", 1484916736},  {"granite3.0-2b", 2533531648}, {"phi3-mini", 3821079552},
      {"gemma-2b", 2506172416},   {"gemma2-2b", 2614341888}, {"gemma3-1b", 999885952}};
  for (const auto& [size, parameters] : published) {
    EXPECT_EQ(host::parameter_count(build({{"size", std::string(size)}})), parameters) << size;
  }
}

TEST_F(LlamaModel, NamesParametersAsPublishedCheckpointsDo) {
  const Graph graph = build({{"layers", std::int64_t{1}},
                             {"heads", std::int64_t{2}},
                             {"kv_heads", std::int64_t{1}},
                             {"embed", std::int64_t{8}},
                             {"context", std::int64_t{4}},
                             {"qk_norm", std::string("yes")},
                             {"qkv_bias", std::string("yes")}});
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name.starts_with("rope.")) continue;
    names.push_back(parameter.name);
    EXPECT_EQ(parameter.decay, !parameter.name.ends_with("norm.weight") && !parameter.name.ends_with(".bias"))
        << parameter.name;
  }
  const std::string layer = "model.layers.0.";
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre(
                  "model.embed_tokens.weight", layer + "input_layernorm.weight", layer + "self_attn.q_proj.weight",
                  layer + "self_attn.q_proj.bias", layer + "self_attn.k_proj.weight", layer + "self_attn.k_proj.bias",
                  layer + "self_attn.v_proj.weight", layer + "self_attn.v_proj.bias", layer + "self_attn.q_norm.weight",
                  layer + "self_attn.k_norm.weight", layer + "self_attn.o_proj.weight",
                  layer + "post_attention_layernorm.weight", layer + "mlp.gate_proj.weight",
                  layer + "mlp.up_proj.weight", layer + "mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"));
}

TEST_F(LlamaModel, RefusesSizesThatDoNotFit) {
  const std::vector<std::pair<std::map<std::string, OptionValue>, std::string>> rows{
      {{{"heads", std::int64_t{4}}, {"kv_heads", std::int64_t{3}}},
       "kv_heads: found 3; accepted: a divisor of heads = 4"},
      {{{"head_dim", std::int64_t{5}}}, "head_dim: found 5; accepted: an even number"},
      {{{"embed", std::int64_t{8}}, {"heads", std::int64_t{12}}},
       "heads: found 12; accepted: a divisor of embed = 8, or an option head_dim"},
      {{{"rope_scaling", std::string("llama3")}, {"rope_low_freq_factor", 8.0}}, "is not above rope_low_freq_factor"},
      {{{"global_every", std::int64_t{2}}, {"window_layers", std::int64_t{1}}},
       "window_layers: found 1; accepted: -1 with global_every"}};
  for (const auto& [given, message] : rows) {
    try {
      (void)factory_.create(Options(factory_.options(), given));
      ADD_FAILURE() << message;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.option() + ": " + error.what(), ::testing::HasSubstr(message));
    }
  }
}

/// Options that replace those of the small llama.
using LlamaOptions = std::map<std::string, OptionValue>;

const LlamaOptions kGroupedQueries = {{"heads", std::int64_t{4}}, {"kv_heads", std::int64_t{2}}};
const LlamaOptions kShortWindow = {{"window", std::int64_t{3}}};
/// Gemma 2 and 3 together, with caps that bend most values.
const LlamaOptions kGemma = {{"heads", std::int64_t{4}},
                             {"kv_heads", std::int64_t{2}},
                             {"head_dim", std::int64_t{8}},
                             {"window", std::int64_t{3}},
                             {"global_every", std::int64_t{2}},
                             {"local_rope_base", 100.0},
                             {"norm_plus_one", std::string("yes")},
                             {"norm_place", std::string("both")},
                             {"activation", std::string("gelu_tanh")},
                             {"scaled_embedding", std::string("yes")},
                             {"attention_multiplier", 0.5},
                             {"attention_cap", 0.7},
                             {"logit_cap", 0.9},
                             {"tied", std::string("yes")}};
/// OLMo 2, SmolLM3 and Granite together.
const LlamaOptions kOthers = {{"heads", std::int64_t{4}},
                              {"kv_heads", std::int64_t{2}},
                              {"no_rope_every", std::int64_t{2}},
                              {"norm_place", std::string("after")},
                              {"qk_norm", std::string("all_heads")},
                              {"embedding_multiplier", 3.0},
                              {"residual_multiplier", 0.4},
                              {"logits_scaling", 0.5},
                              {"residual_dropout", 0.1}};

struct LlamaRow {
  StackRow stack;
  LlamaOptions options;
};

void PrintTo(const LlamaRow& row, std::ostream* out) { PrintTo(row.stack, out); }

class LlamaStack : public ::testing::TestWithParam<LlamaRow> {};

TEST_P(LlamaStack, TrainsAsOneRank) {
  const LlamaRow& row = GetParam();
  LlamaOptions options{{"layers", std::int64_t{2}},  {"heads", std::int64_t{2}},  {"embed", std::int64_t{16}},
                       {"context", std::int64_t{8}}, {"vocab", std::int64_t{16}}, {"ffn", std::int64_t{24}},
                       {"attention_dropout", 0.1}};
  for (const auto& [option, value] : row.options) options[option] = value;
  const host::PluginSection model{"model", "llama", options};
  expect_trains_as_one_rank(row.stack, &model);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, LlamaStack,
    ::testing::Values(
        LlamaRow{{"ddp_tied", table("ddp", 2), 2}, {{"tied", std::string("yes")}}},
        LlamaRow{{"tensor_grouped", table("tensor", 2), 2}, kGroupedQueries},
        LlamaRow{{"tensor_more_than_groups", table("tensor", 4, kSequenceParallel), 4}, kGroupedQueries},
        LlamaRow{{"tensor_biases_and_norms", table("tensor", 2, kSequenceParallel), 2},
                 {{"qkv_bias", std::string("yes")},
                  {"output_bias", std::string("yes")},
                  {"mlp_bias", std::string("yes")},
                  {"qk_norm", std::string("yes")}}},
        LlamaRow{{"ring_window", table("context", 2), 2}, kShortWindow},
        LlamaRow{{"ring_documents_yarn", table("context", 2), 2, 8, 2, true, {}, true},
                 {{"rope_scaling", std::string("yarn")}, {"rope_factor", 4.0}, {"rope_original_context", 4.0}}},
        LlamaRow{{"ulysses_grouped_window", table("context", 2, "attention = \"ulysses\"\n"), 2},
                 {{"heads", std::int64_t{4}}, {"kv_heads", std::int64_t{2}}, {"window", std::int64_t{3}}}},
        LlamaRow{{"ring_gemma", table("context", 2), 2}, kGemma},
        LlamaRow{{"ulysses_gemma", table("context", 2, "attention = \"ulysses\"\n"), 2}, kGemma},
        LlamaRow{{"tensor_gemma", table("tensor", 4, kSequenceParallel), 4}, kGemma},
        LlamaRow{{"zero3_pipeline_gemma", table("zero", 2, "stage = 3\n") + table("pipeline", 2), 4}, kGemma},
        LlamaRow{{"tensor_others", table("tensor", 2, kSequenceParallel), 2}, kOthers},
        LlamaRow{{"ring_pipeline_others", table("context", 2) + table("pipeline", 2), 4}, kOthers},
        LlamaRow{{"zero3_pipeline_tensor_recompute",
                  table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("tensor", 2, kSequenceParallel) +
                      table("recompute", ""),
                  8},
                 kGroupedQueries}),
    [](const auto& info) { return info.param.stack.name; });

}  // namespace
}  // namespace strata::testing
