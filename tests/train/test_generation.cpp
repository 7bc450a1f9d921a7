#include <gmock/gmock.h>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "compiler/graph/continue_sequence.hpp"
#include "generate/text_generation.hpp"
#include "generate/text_scores.hpp"
#include "generate/text_stream.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

using test::run_command;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

/// A model of random weights, which need not have learnt anything to show differences.
struct GenerationModel {
  std::string name;
  std::string options;
};

class GenerationTest : public ::testing::TestWithParam<GenerationModel> {
 protected:
  void SetUp() override {
    const auto result =
        run_command({"train", config_, "--steps", "1", "--set", "model={" + GetParam().options + ", context=12}",
                     "--set", "data.tokenizer=chars", "--set", "optimizer.lr=1.0", "--set", "device.threads=1"});
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }

  [[nodiscard]] RunSetup setup(const std::string& device, DType type) {
    RunConfiguration configuration =
        one_rank_configuration(reader(), {"device={plugin=\"" + device + "\"}"}, registry_);
    configuration.batch = {1, 1};
    RunSetup setup = prepare(std::move(configuration), registry_);
    setup.float_type = type;
    return setup;
  }

  const CheckpointReader& reader() {
    if (!reader_) reader_ = std::make_unique<CheckpointReader>(find_checkpoint((folder_.path() / "output").string()));
    return *reader_;
  }

  std::vector<Tokens> texts(const RunSetup& setup, const Continuation& continuation) {
    std::vector<Tokens> texts(continuation.prompts.size());
    generate(setup, reader(), continuation, {.on_token = [&](std::size_t prompt, std::int32_t token) {
               texts[prompt].push_back(token);
               return true;
             }});
    return texts;
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
  PluginRegistry registry_{{plugin_folder()}};
  std::unique_ptr<CheckpointReader> reader_;
};

/// Prompts of several lengths: shorter than the context, as long, and longer.
const std::vector<Tokens> kPrompts = {
    {3}, {1, 2, 3, 4, 5}, {7, 2}, {6, 5, 4, 3, 2, 1, 7, 8, 9, 1, 2, 3}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}};

/// Texts go on beyond the context, so the window slides.
Continuation continuation(bool cached, std::int64_t batch, double temperature) {
  return {.prompts = kPrompts,
          .tokens = 14,
          .sampling = {.temperature = temperature, .seed = 9},
          .batch = batch,
          .cached = cached};
}

TEST_P(GenerationTest, CachedTextsAreThoseOfTheWholeWindow) {
  const RunSetup exact = setup("reference", DType::f64);
  EXPECT_EQ(texts(exact, continuation(true, 3, 1)), texts(exact, continuation(false, 1, 1)));
  const RunSetup fast = setup("cpu", DType::f32);
  EXPECT_EQ(texts(fast, continuation(true, 3, 0)), texts(fast, continuation(false, 1, 0)));
}

TEST_P(GenerationTest, ATextDoesNotDependOnThoseBesideIt) {
  const RunSetup exact = setup("reference", DType::f64);
  EXPECT_EQ(texts(exact, continuation(true, 8, 1)), texts(exact, continuation(true, 1, 1)));
}

/// The scores, not only the choices, of texts of different lengths.
TEST_P(GenerationTest, CachedScoresHaveTheBitsOfTheWholeWindow) {
  const RunSetup exact = setup("reference", DType::f64);
  const DimSizes sizes = exact.sizes(reader().run().data->sizes);
  const auto device = exact.make_device(0, 1);
  const auto world = exact.make_world();
  const auto communicator = world->connect(0, *device);
  const ScoresRequest request{exact, restored_from(exact, reader(), RestoredWeights::trained), *device, *communicator};
  const GenerationSizes generation{.texts = 3, .capacity = 12, .chunk = 2};
  const CachedPrograms programs = compile_cached(exact, sizes, *device, generation);
  const auto cached = make_cached_scores(request, programs, generation);
  const auto whole = make_window_scores(request, sizes);
  std::vector<GeneratedText> texts = {{kPrompts[1]}, {kPrompts[0]}, {kPrompts[3]}};
  for (int step = 0; step < 3; ++step) {
    // The second text pauses once.
    std::vector<GeneratedText*> places{&texts[0], step == 1 ? nullptr : &texts[1], &texts[2]};
    cached->compute(places);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (places[i] == nullptr) continue;
      GeneratedText same{texts[i].tokens};
      whole->compute({&same});
      EXPECT_EQ(cached->scores(static_cast<std::int64_t>(i)), whole->scores(0)) << "text " << i << ", step " << step;
      texts[i].tokens.push_back(static_cast<std::int32_t>(i + 1));
    }
  }
}

TEST_P(GenerationTest, AreVerifiedWithoutACheckpoint) {
  const GenerationVerification found = verify_generation(setup("reference", DType::f64));
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(found.difference, 0);
}

/// docs/generation.md has this formula. Every model here has 2 layers, a width of 16 and heads of 8.
TEST_P(GenerationTest, TheCacheIsAsLargeAsDocumented) {
  const RunSetup fast = setup("cpu", DType::f32);
  const DimSizes sizes = fast.sizes(reader().run().data->sizes);
  const CachedPrograms programs =
      compile_cached(fast, sizes, *fast.make_device(0, 1), {.texts = 3, .capacity = 10, .chunk = 4});
  const std::int64_t kv_heads = GetParam().options.find("kv_heads=1") == std::string::npos ? 2 : 1;
  for (const Compiled* each : {&programs.next, &programs.prompt}) {
    EXPECT_EQ(each->plan(0).bytes_at_peak.at(BufferKind::cache), 2 * 2 * 3 * 10 * kv_heads * 8 * 4);
  }
}

const std::string kLlama = "plugin=\"llama\", layers=2, heads=2, embed=16, ffn=24";

INSTANTIATE_TEST_SUITE_P(
    Models, GenerationTest,
    ::testing::Values(GenerationModel{"gpt2", "plugin=\"gpt2\", layers=2, heads=2, embed=16"},
                      GenerationModel{"gpt2_window", "plugin=\"gpt2\", layers=2, heads=2, embed=16, window=4"},
                      GenerationModel{"llama", kLlama},
                      GenerationModel{"llama_grouped_window", kLlama + ", kv_heads=1, window=5, qk_norm=\"yes\""},
                      GenerationModel{"gemma", kLlama + ", kv_heads=1, window=5, global_every=2, local_rope_base=100, "
                                                        "norm_plus_one=\"yes\", norm_place=\"both\", "
                                                        "attention_multiplier=0.5, attention_cap=0.7, logit_cap=0.9"},
                      GenerationModel{"olmo", kLlama + ", no_rope_every=2, norm_place=\"after\", "
                                                       "qk_norm=\"all_heads\", residual_multiplier=0.4"}),
    [](const ::testing::TestParamInfo<GenerationModel>& test) { return test.param.name; });

/// Why a model with this body cannot be continued.
std::string refusal(const std::function<Value(GraphBuilder&, Value)>& body) {
  OpRegistry ops;
  KernelRegistry kernels;
  register_core(ops, kernels);
  Graph graph;
  graph.sizes = {{"batch", 1}, {"seq", 4}, {"vocab", 5}, {"embed", 6}, {"heads", 2}, {"head_dim", 3}};
  GraphBuilder builder(graph, ops, GraphMode::evaluation, DType::f32);
  const Value table = builder.parameter("table", {"vocab", "embed"}, Initialization::constant(0), false);
  const Value heads = builder.parameter("to_heads", {"embed", "heads", "head_dim"}, Initialization::constant(0), false);
  const Value x = builder.embedding(table, builder.input("tokens", {"batch", "seq"}), "x");
  builder.output("logits", body(builder, builder.linear(x, heads, {"batch", "seq", "heads", "head_dim"}, "heads")));
  try {
    continue_sequence(graph, ops, {.generation = {}, .positions = 1, .capacity = 4});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(ContinueSequence, RefusesWhatMixesPositionsByName) {
  EXPECT_EQ(refusal([](GraphBuilder& b, Value x) { return b.attention(x, x, x, {.causal = true}, "causal"); }), "");
  EXPECT_THAT(refusal([](GraphBuilder& b, Value x) { return b.attention(x, x, x, {}, "whole"); }),
              HasSubstr("op attention 'whole' is not causal"));
  EXPECT_THAT(refusal([](GraphBuilder& b, Value x) {
                return b.linear(x, x, {"batch", "heads"}, "all");
              }),
              HasSubstr("op linear 'all' mixes positions"));
  EXPECT_THAT(refusal([](GraphBuilder& b, Value x) {
                const Value learned = b.parameter("learned", {"seq", "head_dim"}, Initialization::constant(0), false);
                return b.linear(x, learned, {"batch", "seq", "heads"}, "product");
              }),
              HasSubstr("parameter 'learned' lies along 'seq'"));
  EXPECT_THAT(
      refusal([](GraphBuilder& b, Value x) {
        return b.linear(x, b.input("mask", {"batch", "seq"}, DType::f32), {"batch", "seq", "heads", "head_dim"}, "m");
      }),
      HasSubstr("the input 'mask'"));
}

std::string stopped(const std::vector<std::string>& strings, const std::vector<std::string>& pieces) {
  StopStrings stops(strings);
  std::string text;
  for (const std::string& piece : pieces) text += stops.add(piece) + "|";
  return text + (stops.has_ended() ? "." : stops.rest());
}

TEST(StopStrings, EndATextAcrossPieces) {
  EXPECT_EQ(stopped({"END"}, {"one E", "N", "D two"}), "one |||.");
  EXPECT_EQ(stopped({"END"}, {"one E", "N", "E", "ND"}), "one ||EN||.");
  EXPECT_EQ(stopped({"aab"}, {"a", "a", "a", "b"}), "||a||.");
}

TEST(StopStrings, TheFirstOfSeveralEndsTheText) {
  EXPECT_EQ(stopped({"cd", "b"}, {"abcd"}), "a|.");
  EXPECT_EQ(stopped({"bcde", "c"}, {"ab", "c"}), "a|b|.");
}

TEST(StopStrings, SeeTextThatIsNotShown) {
  StopStrings stops({"b<end>"});
  EXPECT_EQ(stops.add("a<end>", 5), "a");
  EXPECT_EQ(stops.add("b"), "");
  EXPECT_EQ(stops.add("<pad>", 5), "b") << "it was no stop string";
  EXPECT_EQ(stops.add("b"), "");
  EXPECT_EQ(stops.add("<end>", 5), "");
  EXPECT_TRUE(stops.has_ended());
}

TEST(StopStrings, GiveBackWhatWasNoStopString) { EXPECT_EQ(stopped({"END"}, {"one EN"}), "one |EN"); }

}  // namespace
}  // namespace strata::host
