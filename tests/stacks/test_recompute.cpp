#include <algorithm>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace strata::testing {
namespace {

std::string policy(const std::string& options) { return table("recompute", "policy = " + options); }

const std::string kFull = policy("\"full\"");
const std::string kEveryTwo = policy("\"every\"\nevery = 2");
const std::string kSelective = policy("\"selective\"");
const std::string kCheap = policy("\"selective\"\nops = [\"layer_norm\", \"activation\", \"dropout\"]");

class RecomputeStack : public ::testing::TestWithParam<StackRow> {};

TEST_P(RecomputeStack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Rows, RecomputeStack,
    ::testing::Values(StackRow{"full", kFull}, StackRow{"every_two", kEveryTwo},
                      StackRow{"more_than_all", policy("\"every\"\nevery = 9")}, StackRow{"selective", kSelective},
                      StackRow{"cheap_ops", kCheap}, StackRow{"none", policy("\"none\"")},
                      StackRow{"last_block", policy("\"full\"\nlast_block = true")},
                      StackRow{"inside_ddp", table("ddp", 2) + kFull, 2},
                      StackRow{"outside_ddp", kFull + table("ddp", 2), 2},
                      StackRow{"full_with_tensor", table("tensor", 2) + kFull, 2},
                      StackRow{"every_with_tensor", table("tensor", 2) + kEveryTwo, 2},
                      StackRow{"full_with_sequence", table("tensor", 2, "sequence_parallel = true") + kFull, 2},
                      StackRow{"selective_with_sequence", table("tensor", 2, "sequence_parallel = true") + kCheap, 2},
                      StackRow{"twice", kSelective + kFull}),
    [](const auto& info) { return info.param.name; });

/// Sizes of a deep model, whose layers take more memory than its head.
constexpr int kLayers = 12;
constexpr int kMicroBatch = 2;
constexpr int kContext = 16;
constexpr int kEmbed = 32;

host::RunConfiguration deep_gpt2(const std::string& strategies) {
  host::RunConfiguration configuration = small_gpt2(strategies, kMicroBatch, kMicroBatch);
  configuration.model.options["layers"] = std::int64_t{kLayers};
  configuration.model.options["embed"] = std::int64_t{kEmbed};
  configuration.model.options["context"] = std::int64_t{kContext};
  return configuration;
}

class RecomputeMemory : public ::testing::Test {
 protected:
  /// Peak bytes of activations, in units of one activation [batch seq embed].
  static double peak(const std::string& strategies) {
    const host::Compiled compiled = compile_training(deep_gpt2(strategies));
    const double unit = kMicroBatch * kContext * kEmbed * sizeof(float);
    return static_cast<double>(compiled.plans.front().bytes_at_peak.at(BufferKind::activation)) / unit;
  }

  static double flops(const std::string& strategies) {
    double total = 0;
    OpRegistry registry;
    KernelRegistry kernels;
    register_core(registry, kernels);
    const host::Compiled compiled = compile_training(deep_gpt2(strategies));
    for (const Node& node : compiled.graph.nodes()) {
      if (!node.is_leaf()) total += registry.get(node.op).cost(compiled.graph, node).flops;
    }
    return total;
  }
};

/// Activations that the backward pass of a layer reads, in units of one activation: its input, both norms' results, q,
/// k, v, the attention's result and the second residual (8), and the activation function's input and result (2 · 4).
constexpr double kKeptPerLayer = 16;
/// The product before the activation function's gradient, which is fused with it. A layer that is being recomputed does
/// not need it in addition to its stash.
constexpr double kFusedProduct = 4;
/// Means, deviations and log-sum-exps: a few numbers per token.
constexpr double kStatistics = 6.0 / kEmbed;

TEST_F(RecomputeMemory, FullKeepsOneActivationALayer) {
  const double saved = peak("") - peak(kFull);
  // Recomputation saves everything of a layer except its input, for all layers except the one that is being recomputed.
  EXPECT_NEAR(saved, (kLayers - 1) * (kKeptPerLayer - 1) + kFusedProduct, (kLayers - 1) * kStatistics + 1);
}

TEST_F(RecomputeMemory, EveryKeepsTheInputsOfGroups) {
  for (const int every : {2, 3, 4, 6}) {
    const double saved = peak("") - peak(policy("\"every\"\nevery = " + std::to_string(every)));
    const double kept = kLayers * kKeptPerLayer - saved;
    EXPECT_NEAR(kept, kLayers / every + every * kKeptPerLayer - kFusedProduct, kLayers * kStatistics + 2) << every;
  }
}

TEST_F(RecomputeMemory, SelectiveDropsTheResultsOfItsOps) {
  EXPECT_NEAR(peak("") - peak(kSelective), kLayers - 1, (kLayers - 1) * kStatistics + 1);
  // Saves both norms' results and the activation function's result.
  EXPECT_NEAR(peak("") - peak(kCheap), (kLayers - 1) * (2 + 4) + kFusedProduct, (kLayers - 1) * kStatistics + 2);
}

TEST_F(RecomputeMemory, CostsAtMostOneForwardPass) {
  const double plain = flops("");
  EXPECT_EQ(flops(policy("\"none\"")), plain);
  EXPECT_LT(flops(kSelective), 1.05 * plain);
  EXPECT_LT(flops(kCheap), 1.01 * plain);
  EXPECT_GT(flops(kFull), 1.15 * plain);
  EXPECT_LT(flops(kFull), 4.0 / 3.0 * plain);
  // Only the boundaries between the blocks of a group are recomputed in addition.
  EXPECT_GE(flops(kEveryTwo), flops(kFull));
  EXPECT_LT(flops(kEveryTwo), 4.0 / 3.0 * plain);
}

TEST(Recompute, RepeatsNoNumberOfTheLastBlockUnlessAskedTo) {
  const auto repeats_head = [](const std::string& strategies) {
    const host::Compiled compiled = compile_training(small_gpt2(strategies, 2, 2));
    const auto& nodes = compiled.graph.nodes();
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return node.recomputes >= 0 && node.block == compiled.graph.block_count() - 1;
    });
  };
  EXPECT_FALSE(repeats_head(kFull));
  EXPECT_TRUE(repeats_head(policy("\"full\"\nlast_block = true")));
}

TEST(Recompute, ClonesDrawTheNumbersOfTheForwardPassRightBeforeTheirUse) {
  const host::Compiled compiled = compile_training(small_gpt2(kFull, 2, 2));
  int clones = 0;
  const std::vector<Node>& nodes = compiled.graph.nodes();
  for (auto node = nodes.begin(); node != nodes.end(); ++node) {
    if (node->recomputes < 0) continue;
    ++clones;
    const Node& forward = compiled.graph.node(node->recomputes);
    EXPECT_EQ(node->op, forward.op);
    EXPECT_EQ(node->name, forward.name);
    EXPECT_EQ(node->block, forward.block);
    EXPECT_EQ(node->phase, Phase::backward);
    EXPECT_EQ(forward.phase, Phase::forward);
    // The node before it belongs to this block's backward pass, or to the one that has just ended.
    EXPECT_GE(std::prev(node)->block, node->block);
  }
  EXPECT_GT(clones, 20);
}

/// Values that would need communication again are stashed.
TEST(Recompute, RepeatsNoCommunication) {
  const auto traffic = [](const std::string& strategies) {
    const host::Compiled compiled = compile_training(small_gpt2(strategies, 2, 2));
    std::map<std::string, host::CommunicationSummary> by_kind;
    for (auto& each : host::summarize_communication(compiled.programs.front())) by_kind[each.kind + each.axes] = each;
    return by_kind;
  };
  const std::string sequence = "sequence_parallel = true";
  for (const std::string& stack :
       {table("tensor", 2), table("tensor", 2, sequence), table("context", 2),
        table("context", 2, "attention = \"all_gather\""), table("context", 2, "attention = \"ulysses\""),
        table("context", 2) + table("tensor", 2, sequence)}) {
    auto without = traffic(stack);
    for (const std::string& policy : {kFull, kEveryTwo, kSelective, kCheap}) {
      for (const auto& [kind, found] : traffic(stack + policy)) {
        EXPECT_LE(found.calls, without[kind].calls) << kind << '\n' << stack << policy;
        EXPECT_LE(found.bytes, without[kind].bytes) << kind << '\n' << stack << policy;
      }
    }
  }
}

TEST(Recompute, RefusesOptionsThatContradictEachOther) {
  const auto refusal = [](const std::string& strategies) -> std::string {
    try {
      static_cast<void>(compile_training(small_gpt2(strategies, 2, 2)));
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal(policy("\"full\"\nevery = 3")).find("policy = \"every\""), std::string::npos);
  EXPECT_NE(refusal(policy("\"selective\"\nops = []")).find("ops"), std::string::npos);
  EXPECT_NE(refusal(policy("\"selective\"\nops = [\"layr_norm\"]")).find("'layer_norm'"), std::string::npos);
}

}  // namespace
}  // namespace strata::testing
