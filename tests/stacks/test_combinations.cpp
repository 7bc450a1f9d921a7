#include <gtest/gtest.h>

#include <map>
#include <string>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"

namespace strata::testing {
namespace {

/// A stack as its [[strategy]] tables, outermost first, each in the form "plugin: options".
struct StackCase {
  const char* name;
  int ranks;
  int global_batch;
  int micro_batch;
  std::vector<std::string> strategies;
};

std::string tables(const std::vector<std::string>& strategies) {
  std::string text;
  for (const std::string& each : strategies) {
    const std::size_t colon = each.find(':');
    text += "[[strategy]]\nplugin = \"" + each.substr(0, colon) + "\"\n";
    std::string options = each.substr(colon + 1);
    for (std::size_t at = 0; (at = options.find(';', at)) != std::string::npos;) options[at] = '\n';
    text += options + "\n";
  }
  return text;
}

class Stack : public ::testing::TestWithParam<StackCase> {};

TEST_P(Stack, TrainsAsOneRank) {
  const StackCase& row = GetParam();
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(tables(row.strategies), row.global_batch, row.micro_batch), plugins, {3, true});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Zero, Stack,
    ::testing::Values(StackCase{"stage_1", 2, 8, 2, {"zero:size = 2"}},
                      StackCase{"stage_1_no_overlap", 2, 8, 2, {"zero:size = 2;overlap = false"}},
                      StackCase{"stage_2", 2, 8, 2, {"zero:size = 2;stage = 2"}},
                      StackCase{"stage_3", 2, 8, 2, {"zero:size = 2;stage = 3"}},
                      StackCase{"stage_3_on_three", 3, 12, 2, {"zero:size = 3;stage = 3;bucket_mb = 0.002"}},
                      StackCase{"stage_3_kept", 2, 8, 2, {"zero:size = 2;stage = 3;reshard_after_forward = false"}},
                      StackCase{"stage_3_no_prefetch", 4, 8, 1, {"zero:size = 4;stage = 3;prefetch = 0"}},
                      StackCase{"hierarchical", 4, 8, 1, {"zero:size = 4;stage = 3;hierarchical_partition = 2"}},
                      StackCase{"hybrid_1", 4, 8, 1, {"zero:size = 2;replicate = 2"}},
                      StackCase{"hybrid_3", 4, 8, 1, {"zero:size = 2;stage = 3;replicate = 2"}},
                      StackCase{"single_writer", 3, 12, 2, {"dataparallel:size = 3"}},
                      StackCase{"several_axes", 4, 8, 1, {"ddp:size = 2;replicate = [\"node=2\"]"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ChunkedOverlap, Stack,
    ::testing::Values(StackCase{"all_reduce", 2, 8, 4, {"tensor:size = 2;overlap_chunks = 2"}},
                      StackCase{
                          "reduce_scatter", 2, 8, 4, {"tensor:size = 2;overlap_chunks = 4;sequence_parallel = true"}},
                      StackCase{"fewer_sequences", 2, 6, 3, {"tensor:size = 2;overlap_chunks = 4"}},
                      StackCase{"with_everything",
                                8,
                                16,
                                4,
                                {"zero:size = 2;stage = 3", "pipeline:size = 2",
                                 "tensor:size = 2;overlap_chunks = 2;sequence_parallel = true"}}),
    [](const auto& info) { return info.param.name; });

/// Chunks must exist, or the rows above prove nothing.
TEST(ChunkedOverlap, CutsCollectivesAndKeepsTheirBytes) {
  BuiltPlugins plugins;
  const auto summary = [&](int chunks) {
    const std::string table = "tensor:size = 2;sequence_parallel = true;overlap_chunks = " + std::to_string(chunks);
    const host::RunSetup setup = host::prepare(small_gpt2(tables({table}), 8, 4), plugins);
    host::CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
    const std::unique_ptr<Device> device = setup.make_device(0, 1);
    request.device = device.get();
    return host::summarize_communication(setup.compile(request).program(0));
  };
  const auto whole = summary(1);
  const auto parts = summary(4);
  ASSERT_EQ(whole.size(), parts.size());
  std::int64_t more = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].bytes, parts[i].bytes) << whole[i].kind;
    more += parts[i].calls - whole[i].calls;
  }
  // Two blocks with two gathers and two scatters in the forward pass, each cut in four, twice per step. The backward
  // pass adds more.
  EXPECT_GE(more, 2 * 4 * 3 * 2);
}

/// The number of occurrences of each op in the forward passes of a stack.
std::map<std::string, int> forward_ops(const std::string& strategies) {
  std::map<std::string, int> count;
  const host::Compiled compiled = compile_training(small_gpt2(strategies, 8, 2));
  for (const Task& task : compiled.program(0).tasks) {
    if (task.kind != Task::Kind::forward) continue;
    for (const Instruction& each : task.instructions) {
      if (each.is<Compute>()) ++count[work_name(each)];
    }
  }
  return count;
}

/// The product adds a bias that is gathered for its block, as it adds a resident one.
TEST(ShardedValues, AreFusedAsWholeOnesAre) {
  const std::map<std::string, int> whole = forward_ops(table("zero", 2, "stage = 1\n"));
  EXPECT_GT(whole.at("linear_bias"), 0);
  EXPECT_GT(whole.at("linear_bias_activation"), 0);
  for (const std::string options : {"", "prefetch = 0\n", "reshard_after_forward = false\n", "bucket_mb = 0.002\n"}) {
    EXPECT_EQ(forward_ops(table("zero", 2, "stage = 3\n" + options)), whole) << options;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pipeline, Stack,
    ::testing::Values(
        StackCase{"naive", 2, 8, 2, {"pipeline:size = 2;schedule = \"naive\""}},
        StackCase{"gpipe", 2, 8, 2, {"pipeline:size = 2;schedule = \"gpipe\""}},
        StackCase{"one_forward_one_backward", 4, 8, 1, {"pipeline:size = 4;schedule = \"1f1b\""}},
        StackCase{"interleaved", 2, 8, 2, {"pipeline:size = 2;schedule = \"interleaved\";virtual_stages = 2"}},
        StackCase{"zero_bubble", 2, 8, 2, {"pipeline:size = 2;schedule = \"zb-h1\""}},
        StackCase{"zero_bubble_v", 2, 8, 2, {"pipeline:size = 2;schedule = \"zbv\""}},
        StackCase{"with_ddp", 4, 8, 1, {"ddp:size = 2", "pipeline:size = 2"}},
        StackCase{"with_zero_1", 4, 8, 1, {"pipeline:size = 2", "zero:size = 2"}},
        StackCase{"with_zero_2", 4, 8, 1, {"pipeline:size = 2;schedule = \"zb-h1\"", "zero:size = 2;stage = 2"}},
        StackCase{"with_zero_3", 4, 8, 1, {"pipeline:size = 2", "zero:size = 2;stage = 3"}},
        StackCase{"with_zero_3_interleaved",
                  4,
                  8,
                  1,
                  {"pipeline:size = 2;schedule = \"interleaved\";virtual_stages = 2", "zero:size = 2;stage = 3"}},
        StackCase{"with_single_writer", 4, 8, 1, {"pipeline:size = 2", "dataparallel:size = 2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
