// lora with a base in 8 or 4 bits.

#include <gmock/gmock.h>

#include "lora_stack.hpp"
#include "strata/error.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::testing {
namespace {

std::string with_base(const std::string& base) { return table("lora", "rank = 3\nalpha = 60.0\n" + base); }

/// Blocks of whole and of shorter length.
const std::string kNf4 = with_base("base = \"nf4\"\nbase_block = 6\n");
const std::string kInt8 = with_base("base = \"int8\"\nbase_block = 5\n");
const std::string kPlainBase = with_base("");

class LoraBase : public ::testing::TestWithParam<StackRow> {};

TEST_P(LoraBase, TrainsAsOneRank) {
  const host::PluginSection model = lora_model();
  expect_trains_as_one_rank(GetParam(), &model);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, LoraBase,
    ::testing::Values(
        StackRow{"int8_ddp", table("ddp", 2) + kInt8, 2},
        StackRow{"zero3_offload_quantized",
                 table("zero", 2, "stage = 3\noffload_param = \"host\"\nquantized_weights = true\n") + kNf4, 2},
        StackRow{"zero3_kept", table("zero", 3, "stage = 3\nreshard_after_forward = false\n") + kInt8, 3, 6},
        StackRow{"tensor_sequence", table("tensor", 4, kSequenceParallel) + kNf4, 4},
        StackRow{"zero_bubble", table("pipeline", 2, "schedule = \"zb-h1\"\n") + kNf4, 2},
        StackRow{"ring", table("context", 2) + kInt8, 2},
        StackRow{"local_sgd", table("localsgd", 2, "steps = 2\n") + kNf4, 2},
        StackRow{"precision_behind", kNf4 + table("precision", "") + table("recompute", ""), 1},
        StackRow{"second_adapters",
                 table("lora", "rank = 1\nalpha = 600.0\ntargets = [\"*.mlp.*\"]\n") +
                     table("lora", "rank = 3\nalpha = 60.0\ntargets = [\"*.q_proj.*\"]\nbase = \"nf4\"\n"),
                 1},
        StackRow{"zero3_pipeline_tensor_recompute_precision",
                 table("precision", "") + table("zero", 2, "stage = 3\n") + table("pipeline", 2) +
                     table("tensor", 2, kSequenceParallel) + table("recompute", "") + kNf4,
                 8}),
    [](const auto& info) { return info.param.name; });

TEST(LoraBase, BeginsAsTheCodesOfTheModel) {
  const host::StackResult whole = train_lora_model(kPlainBase, 0);
  for (const auto& [strategies, code] : {std::pair(kNf4, WeightCode::nf4), std::pair(kInt8, WeightCode::int8)}) {
    const host::StackResult coded = train_lora_model(strategies, 2);
    int weights = 0;
    for (const auto& [name, values] : whole.parameters) {
      if (!coded.parameters.contains(name + ".codes")) continue;
      ++weights;
      // The blocks lie along `embed`: the last dimension of the head and of what writes the stream, else the first.
      const bool is_last = name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos ||
                           name == "lm_head.weight";
      const auto elements = static_cast<std::int64_t>(values.size());
      const Shape shape = is_last ? Shape{elements / 16, 16} : Shape{16, elements / 16};
      const WeightBlocks blocks{code, code == WeightCode::nf4 ? 6 : 5};
      const EncodedWeight expected = encode_weight(BlockedWeight(blocks, shape, is_last ? 1 : 0),
                                                   std::vector<float>(values.begin(), values.end()));
      const auto& codes = coded.parameters.at(name + ".codes");
      const auto& scales = coded.parameters.at(name + ".scales");
      EXPECT_TRUE(std::equal(codes.begin(), codes.end(), expected.codes.begin(), expected.codes.end())) << name;
      EXPECT_TRUE(std::equal(scales.begin(), scales.end(), expected.scales.begin(), expected.scales.end())) << name;
    }
    EXPECT_EQ(weights, 2 * 7 + 1);
    // The codes are near the model, but not the model.
    const double difference = std::abs(coded.losses.front() - train_lora_model(kPlainBase, 1).losses.front());
    EXPECT_GT(difference, 1e-9);
    EXPECT_LT(difference, 0.1);
  }
}

/// Bytes of the parameters that are stored in blocks, or would be.
std::int64_t matrix_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const StoredParameter& parameter : program.parameters) {
    const bool is_adapter = parameter.name.find(".lora_") != std::string::npos;
    const bool is_matrix = parameter.name.find("_proj.weight") != std::string::npos;
    if (is_matrix && !is_adapter) bytes += program.buffer(parameter.value).bytes();
  }
  return bytes;
}

TEST(LoraBase, TakesAnEighthOfTheMemory) {
  const std::string targets = "base_targets = [\"*_proj.weight\"]\n";
  const auto bytes = [](const std::string& strategies) {
    return static_cast<double>(matrix_bytes(compile_training(lora_configuration(strategies)).program(0)));
  };
  const double whole = bytes(kPlainBase);
  // Blocks of 16 have one scale of four bytes.
  EXPECT_EQ(bytes(with_base("base = \"nf4\"\n" + targets)), whole * (0.5 + 4.0 / 16) / 4);
  EXPECT_EQ(bytes(with_base("base = \"int8\"\n" + targets)), whole * (1 + 4.0 / 16) / 4);
}

/// The backward pass decodes again. So no decoded matrix is alive between the two passes.
TEST(LoraBase, KeepsNoDecodedMatrix) {
  for (const std::string& strategies : {kNf4, table("precision", "") + kNf4, kNf4 + table("precision", "")}) {
    const Graph graph = compile_training(lora_configuration(strategies)).graph;
    for (const Node& node : graph.nodes()) {
      if (node.phase == Phase::forward) continue;
      for (const Value& operand : node.operands) {
        const Node& read = graph.node(operand.node);
        EXPECT_FALSE(read.phase == Phase::forward && read.name.find(".decoded") != std::string::npos)
            << node.name << " reads " << read.name;
      }
    }
  }
}

TEST(LoraBase, RefusesWhatItCannotStore) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {with_base("base = \"nf4\"\nbase_block = 7\n"), "base_block: found 7; accepted: an even number for nf4"},
      {with_base("base_targets = [\"*\"]\n"), "base_targets: found patterns beside base = \"full\""},
      {with_base("base = \"int8\"\nbase_targets = [\"*embed*\"]\n"),
       "base_targets: found a pattern of parameter 'model.embed_tokens.weight'; accepted: patterns of matrices"},
      {with_base("base = \"int8\"\nbase_targets = [\"nothing\"]\n"),
       "base_targets: found \"nothing\", which matches no"},
      {table("lora", "base = \"int8\"\ntargets = [\"*q_proj*\"]\n") + kPlainBase,
       "base: an earlier lora strategy has one; accepted: in the last one"}};
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
