#include <gtest/gtest.h>

#include <map>
#include <string>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"

namespace strata::testing {
namespace {

class Stack : public ::testing::TestWithParam<StackRow> {};

TEST_P(Stack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Zero, Stack,
    ::testing::Values(StackRow{"stage_1", table("zero", 2), 2},
                      StackRow{"stage_1_no_overlap", table("zero", 2, "overlap = false\n"), 2},
                      StackRow{"stage_2", table("zero", 2, "stage = 2\n"), 2},
                      StackRow{"stage_3", table("zero", 2, "stage = 3\n"), 2},
                      StackRow{"stage_3_on_three", table("zero", 3, "stage = 3\nbucket_mb = 0.002\n"), 3, 12, 2},
                      StackRow{"stage_3_kept", table("zero", 2, "stage = 3\nreshard_after_forward = false\n"), 2},
                      StackRow{"stage_3_no_prefetch", table("zero", 4, "stage = 3\nprefetch = 0\n"), 4, 8, 1},
                      StackRow{"hierarchical", table("zero", 4, "stage = 3\nhierarchical_partition = 2\n"), 4, 8, 1},
                      StackRow{"hybrid_1", table("zero", 2, "replicate = 2\n"), 4, 8, 1},
                      StackRow{"hybrid_3", table("zero", 2, "stage = 3\nreplicate = 2\n"), 4, 8, 1},
                      StackRow{"single_writer", table("dataparallel", 3), 3, 12, 2},
                      StackRow{"several_axes", table("ddp", 2, "replicate = [\"node=2\"]\n"), 4, 8, 1}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ChunkedOverlap, Stack,
    ::testing::Values(StackRow{"all_reduce", table("tensor", 2, "overlap_chunks = 2\n"), 2, 8, 4},
                      StackRow{"reduce_scatter", table("tensor", 2, kSequenceParallel + "overlap_chunks = 4\n"), 2, 8,
                               4},
                      StackRow{"fewer_sequences", table("tensor", 2, "overlap_chunks = 4\n"), 2, 6, 3},
                      StackRow{"with_everything",
                               table("zero", 2, "stage = 3\n") + table("pipeline", 2) +
                                   table("tensor", 2, kSequenceParallel + "overlap_chunks = 2\n"),
                               8, 16, 4}),
    [](const auto& info) { return info.param.name; });

/// Chunks must exist, or the rows above prove nothing.
TEST(ChunkedOverlap, CutsCollectivesAndKeepsTheirBytes) {
  const auto summary = [](int chunks) {
    const std::string options = kSequenceParallel + "overlap_chunks = " + std::to_string(chunks) + "\n";
    return host::summarize_communication(compile_training(small_gpt2(table("tensor", 2, options), 8, 4)).program(0));
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
        StackRow{"naive", table("pipeline", 2, "schedule = \"naive\"\n"), 2},
        StackRow{"gpipe", table("pipeline", 2, "schedule = \"gpipe\"\n"), 2},
        StackRow{"one_forward_one_backward", table("pipeline", 4, "schedule = \"1f1b\"\n"), 4, 8, 1},
        StackRow{"interleaved", table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 2\n"), 2},
        StackRow{"zero_bubble", table("pipeline", 2, "schedule = \"zb-h1\"\n"), 2},
        StackRow{"zero_bubble_v", table("pipeline", 2, "schedule = \"zbv\"\n"), 2},
        StackRow{"with_ddp", table("ddp", 2) + table("pipeline", 2), 4, 8, 1},
        StackRow{"with_zero_1", table("pipeline", 2) + table("zero", 2), 4, 8, 1},
        StackRow{"with_zero_2", table("pipeline", 2, "schedule = \"zb-h1\"\n") + table("zero", 2, "stage = 2\n"), 4, 8,
                 1},
        StackRow{"with_zero_3", table("pipeline", 2) + table("zero", 2, "stage = 3\n"), 4, 8, 1},
        StackRow{
            "with_zero_3_interleaved",
            table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 2\n") + table("zero", 2, "stage = 3\n"),
            4, 8, 1},
        StackRow{"with_single_writer", table("pipeline", 2) + table("dataparallel", 2), 4, 8, 1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
