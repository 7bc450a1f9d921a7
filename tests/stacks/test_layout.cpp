#include <gmock/gmock.h>

#include "stack_row.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

/// A table of the strategy with an axis of its own.
std::string layout_of(int size, const std::string& rules) { return table("layout", size, "rules = [" + rules + "]\n"); }

/// A table that uses the axis of another strategy.
std::string layout_over(const std::string& axis, const std::string& rules) {
  return table("layout", "over = \"" + axis + "\"\nrules = [" + rules + "]\n");
}

/// The first layer is split by weights, all else by samples.
const std::string kTwoKinds = R"("h.0: heads, ffn", "*: batch")";
const std::string kVocabulary = R"("wte, lm_head, loss: vocab")";

class LayoutStack : public ::testing::TestWithParam<StackRow> {};

TEST_P(LayoutStack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Rows, LayoutStack,
    ::testing::Values(
        StackRow{"two_kinds_of_layers", layout_of(2, kTwoKinds), 2},
        StackRow{"samples_inside_and_weights_outside", layout_of(2, R"("h.0-1: batch", "*: vocab, seq")"), 2},
        StackRow{"modules", layout_of(2, R"("h.*.attn: heads", "h.*.mlp: batch", "*: seq")"), 2},
        StackRow{"weights_then_tokens", layout_of(2, R"("h.*: heads, ffn, seq", "*: vocab, seq")"), 2},
        StackRow{"residual_stream", layout_of(2, R"("h.1.mlp: embed", "*: batch")"), 2},
        StackRow{"a_parameter_at_rest", layout_of(2, R"("wte.weight: embed", "h.0.mlp.c_fc.weight: ffn", "*: batch")"),
                 2},
        StackRow{
            "four", layout_of(4, R"("h.0.attn: heads", "h.1: ffn, seq", "*: batch")"), 4, 8, 4, false, {{"heads", 4}}},
        StackRow{"two_axes",
                 layout_of(2, kTwoKinds) + table("layout", 2, "axis = \"y\"\nrules = [\"h.1: heads, ffn\"]\n"), 4},
        StackRow{"ddp", table("ddp", 2) + layout_of(2, kTwoKinds), 4},
        StackRow{"vocabulary_over_ddp", table("ddp", 2) + layout_over("dp", kVocabulary), 2},
        StackRow{"layers_over_ddp", table("ddp", 2) + layout_over("dp", R"("h.0: heads, ffn", "h.1.mlp: embed")"), 2},
        StackRow{"zero_1", table("zero", 2) + layout_of(2, kTwoKinds), 4},
        StackRow{"zero_2", layout_of(2, kTwoKinds) + table("zero", 2, "stage = 2\n"), 4},
        StackRow{"zero_3", table("zero", 2, "stage = 3\n") + layout_of(2, kTwoKinds), 4},
        StackRow{"layers_over_zero_3", table("zero", 2, "stage = 3\n") + layout_over("dp", R"("h.0: ffn")"), 2},
        StackRow{"vocabulary_over_zero_2", table("zero", 2, "stage = 2\n") + layout_over("dp", kVocabulary), 2},
        StackRow{"pipeline", table("pipeline", 2) + layout_of(2, kTwoKinds), 4},
        StackRow{"samples_in_a_pipeline",
                 table("pipeline", 2, "schedule = \"zb-h1\"\n") + layout_of(2, R"("h.0: batch", "*: heads, ffn")"), 4},
        StackRow{"tensor", table("tensor", 2, "vocab_parallel = false\n") + layout_of(2, R"("h.0: ffn", "*: batch")"),
                 4},
        StackRow{"samples_over_tensor", table("tensor", 2) + layout_over("tp", R"("h.1: batch")"), 2},
        StackRow{"tokens_over_tensor",
                 table("ddp", 2) + table("tensor", 2, kSequenceParallel) + layout_over("tp", R"("h.0.mlp: seq")"), 4},
        StackRow{"recompute", layout_of(2, kTwoKinds) + table("recompute", "policy = \"full\"\n"), 2},
        StackRow{"recompute_some", layout_of(2, kTwoKinds) + table("recompute", "policy = \"selective\"\n"), 2},
        StackRow{"ring", table("context", 2) + layout_of(2, kTwoKinds), 4},
        StackRow{"samples_over_the_ring", table("context", 2) + layout_over("cp", R"("h.0: heads, batch")"), 2},
        StackRow{"ulysses",
                 table("context", 2, "attention = \"ulysses\"\n") + layout_of(2, R"("h.1: ffn", "*: batch")"), 4},
        StackRow{"lora", table("lora", "") + layout_of(2, kTwoKinds), 2, 8, 2, true, {}, false, 0.05},
        StackRow{"everything",
                 table("zero", 2, "stage = 3\n") + table("pipeline", 2) + table("tensor", 2, kSequenceParallel) +
                     layout_of(2, R"("h.0: seq", "*: batch")") + table("recompute", ""),
                 16}),
    [](const auto& info) { return info.param.name; });

/// Without rules that name single layers, a model of any number of layers is verified as one of two.
TEST(LayoutVerification, KeepsLayersThatRulesTellApart) {
  const auto layers = [](const std::string& rules) {
    host::RunConfiguration configuration = small_gpt2(layout_of(2, rules), 8, 2);
    configuration.model.options["layers"] = OptionValue(std::int64_t{6});
    BuiltPlugins plugins;
    return std::get<std::int64_t>(host::shrink(configuration, plugins).model.options.at("layers"));
  };
  EXPECT_LT(layers(R"("h.*: heads, ffn", "*: batch")"), 6);
  EXPECT_EQ(layers(R"("h.4-5: heads, ffn", "*: batch")"), 6);
}

struct RefusedLayout {
  const char* name;
  std::string strategies;
  const char* message;
};

void PrintTo(const RefusedLayout& row, std::ostream* out) { *out << row.name; }

class LayoutRefusal : public ::testing::TestWithParam<RefusedLayout> {};

TEST_P(LayoutRefusal, NamesPlaceFoundAndAccepted) {
  std::string message = "accepted";
  try {
    static_cast<void>(compile_training(small_gpt2(GetParam().strategies, 8, 2)));
  } catch (const ConfigurationError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, ::testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, LayoutRefusal,
    ::testing::Values(
        RefusedLayout{"no_rules", layout_of(2, ""),
                      "strategy.0.rules: found none; accepted: one or more, such as \"h.0-3: heads, ffn\""},
        RefusedLayout{
            "no_dimensions", layout_of(2, R"("h.0")"),
            "small_gpt2.toml:28:9: strategy.0.rules: found \"h.0\"; accepted: patterns of names and dimensions"},
        RefusedLayout{"backward_range", layout_of(2, R"("h.3-1: ffn")"),
                      "accepted: a range whose first number is not the larger"},
        RefusedLayout{
            "a_layer_that_is_not_there", layout_of(2, R"("h.2: heads", "*: batch")"),
            "found \"h.2: heads\", which names nothing that no earlier rule names; accepted: patterns of names, which "
            "are wte, wpe, embedding, "},
        RefusedLayout{"a_rule_behind_all", layout_of(2, R"("*: batch", "h.0: heads")"),
                      "found \"h.0: heads\", which names nothing that no earlier rule names"},
        RefusedLayout{
            "a_dimension_that_is_not_there", layout_of(2, R"("h.0.mlp: heads")"),
            "found \"h.0.mlp: heads\", where nothing has the dimension 'heads'; accepted: batch, embed, ffn, seq"},
        RefusedLayout{
            "a_size_that_does_not_divide", layout_of(4, R"("h.0: heads")"),
            "found \"h.0: heads\", whose dimension 'heads' has size 2; accepted: dimensions whose size is a multiple "
            "of the axis' 4 ranks"},
        RefusedLayout{"a_size_beside_over",
                      table("ddp", 2) + table("layout", 2, "over = \"dp\"\nrules = [\"*: vocab\"]\n"),
                      "strategy.1.size: found 2; accepted: 1 with over"},
        RefusedLayout{"an_axis_that_is_not_there", layout_over("tp", R"("*: vocab")"),
                      "strategy 1 'layout' maps dimension 'vocab' onto mesh axis 'tp', which no strategy adds"},
        RefusedLayout{"weights_over_replicas_apart",
                      table("localsgd", 2, "steps = 2\n") + layout_over("replica", R"("*: ffn")"),
                      "but dimension 'ffn' is mapped onto it; accepted: batch"},
        RefusedLayout{
            "stages", table("pipeline", 2) + layout_over("pp", R"("*: ffn")"),
            "strategy 1 'pipeline' places layers along mesh axis 'pp', but dimension 'ffn' is mapped onto it"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::testing
