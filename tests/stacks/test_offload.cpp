#include <gtest/gtest.h>

#include <algorithm>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

std::string zero(int size, int stage, const std::string& options) {
  return table("zero", size, "stage = " + std::to_string(stage) + "\n" + options);
}

const std::string kStatesInHost = "offload_optimizer = \"host\"\n";
const std::string kStatesInFile = "offload_optimizer = \"file\"\n";
const std::string kValuesInHost = "offload_param = \"host\"\n";
const std::string kValuesInFile = "offload_param = \"file\"\n";
/// A bucket size for which a step has many buckets.
const std::string kManyBuckets = "bucket_mb = 0.002\n";

class Offload : public ::testing::TestWithParam<StackRow> {};

TEST_P(Offload, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    OneRank, Offload,
    ::testing::Values(StackRow{"states_in_host", zero(1, 1, kStatesInHost)},
                      StackRow{"states_in_file", zero(1, 1, kStatesInFile + kManyBuckets)},
                      StackRow{"values_in_host", zero(1, 3, kValuesInHost)},
                      StackRow{"values_in_file", zero(1, 3, kValuesInFile + "prefetch = 0\n")},
                      StackRow{"all_in_host", zero(1, 3, kStatesInHost + kValuesInHost + kManyBuckets)},
                      StackRow{"all_in_file", zero(1, 3, kStatesInFile + kValuesInFile + kManyBuckets)},
                      StackRow{"states_in_file_values_in_host", zero(1, 3, kStatesInFile + kValuesInHost)}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Zero, Offload,
    ::testing::Values(StackRow{"stage_1_states_in_host", zero(2, 1, kStatesInHost), 2},
                      StackRow{"stage_1_states_in_file", zero(2, 1, kStatesInFile + kManyBuckets), 2},
                      StackRow{"stage_1_no_overlap", zero(2, 1, kStatesInHost + "overlap = false\n"), 2},
                      StackRow{"stage_2_states_in_host", zero(2, 2, kStatesInHost + kManyBuckets), 2},
                      StackRow{"stage_2_states_in_file", zero(2, 2, kStatesInFile), 2},
                      StackRow{"stage_3_states_in_host", zero(2, 3, kStatesInHost), 2},
                      StackRow{"stage_3_states_in_file", zero(2, 3, kStatesInFile + kManyBuckets), 2},
                      StackRow{"stage_3_values_in_host", zero(2, 3, kValuesInHost), 2},
                      StackRow{"stage_3_values_in_file", zero(2, 3, kValuesInFile), 2},
                      StackRow{"stage_3_all_in_host", zero(3, 3, kStatesInHost + kValuesInHost + kManyBuckets), 3, 12},
                      StackRow{"stage_3_all_in_file", zero(2, 3, kStatesInFile + kValuesInFile), 2},
                      StackRow{"stage_3_no_prefetch", zero(2, 3, kStatesInHost + kValuesInHost + "prefetch = 0\n"), 2},
                      StackRow{"stage_3_much_prefetch", zero(2, 3, kValuesInFile + "prefetch = 9\n"), 2},
                      StackRow{"stage_3_kept",
                               zero(2, 3, kStatesInFile + kValuesInHost + "reshard_after_forward = false\n"), 2},
                      StackRow{"hierarchical", zero(4, 3, kValuesInHost + "hierarchical_partition = 2\n"), 4, 8, 1},
                      StackRow{"hybrid", zero(2, 3, kStatesInHost + kValuesInFile + "replicate = 2\n"), 4, 8, 1}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Combined, Offload,
    ::testing::Values(
        StackRow{"ddp_and_states_in_host", table("ddp", 2) + zero(1, 1, "axis = \"offload\"\n" + kStatesInHost), 2},
        StackRow{"ddp_and_values_in_file", table("ddp", 2) + zero(1, 3, "axis = \"offload\"\n" + kValuesInFile), 2},
        StackRow{"pipeline_and_stage_1", table("pipeline", 2) + zero(2, 1, kStatesInFile + kManyBuckets), 4, 8, 1},
        StackRow{"pipeline_and_stage_2", table("pipeline", 2) + zero(2, 2, kStatesInHost), 4, 8, 1},
        StackRow{"pipeline_and_stage_3", table("pipeline", 2) + zero(2, 3, kStatesInHost + kValuesInHost), 4, 8, 1},
        StackRow{"interleaved_pipeline",
                 table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 2\n") +
                     zero(1, 3, kStatesInFile + kValuesInFile),
                 2},
        StackRow{"tensor_and_stage_3", zero(2, 3, kStatesInHost + kValuesInHost) + table("tensor", 2), 4}),
    [](const auto& info) { return info.param.name; });

/// Bytes of buffers of one kind in one place that a rank keeps from step to step.
std::int64_t kept_bytes(const Program& program, BufferKind kind, MemoryPlace place) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.base < 0 && buffer.persistent && buffer.kind == kind && buffer.place == place) bytes += buffer.bytes();
  }
  return bytes;
}

host::Compiled compiled(const std::string& strategies) { return compile_training(small_gpt2(strategies, 8, 2)); }

TEST(OffloadMemory, StatesLeaveTheDeviceButForThreeBuckets) {
  for (const MemoryPlace place : {MemoryPlace::host, MemoryPlace::file}) {
    const host::Compiled without = compiled(zero(1, 1, kManyBuckets));
    const host::Compiled with =
        compiled(zero(1, 1, kManyBuckets + "offload_optimizer = \"" + std::string(to_string(place)) + "\"\n"));
    const Program& program = with.programs.front();
    const std::int64_t states = kept_bytes(without.programs.front(), BufferKind::optimizer, MemoryPlace::device);
    EXPECT_EQ(kept_bytes(program, BufferKind::optimizer, MemoryPlace::device), 0);
    EXPECT_EQ(kept_bytes(program, BufferKind::optimizer, place), states);

    std::vector<std::int64_t> buckets;  // bytes of each bucket's states
    for (const Buffer& buffer : program.buffers) {
      if (buffer.base >= 0 || buffer.kind != BufferKind::optimizer || buffer.place != place) continue;
      buckets.push_back(2 * buffer.bytes());
    }
    ASSERT_GT(buckets.size(), 8U);
    const std::int64_t pool = 3 * *std::max_element(buckets.begin(), buckets.end());
    ASSERT_LT(2 * pool, states) << "or the bound says nothing";
    const auto& [plain, offloaded] = std::pair(without.plans.front(), with.plans.front());
    EXPECT_LE(offloaded.arena_bytes, plain.arena_bytes - states + pool);
    EXPECT_GE(place == MemoryPlace::host ? offloaded.offload.host : offloaded.offload.file, states);
    EXPECT_EQ(place == MemoryPlace::host ? offloaded.offload.file : offloaded.offload.host, 0);
  }
}

TEST(OffloadMemory, ValuesLeaveTheDevice) {
  const Program program = compiled(zero(1, 3, kStatesInFile + kValuesInHost)).programs.front();
  EXPECT_EQ(kept_bytes(program, BufferKind::parameter, MemoryPlace::device), 0);
  EXPECT_GT(kept_bytes(program, BufferKind::parameter, MemoryPlace::host), 0);
  EXPECT_GT(kept_bytes(program, BufferKind::optimizer, MemoryPlace::file), 0);
}

/// A step copies the states to the device and back once. It copies values to the device for every use in every
/// micro-batch, and back once.
TEST(OffloadMemory, AStepMovesWhatItMust) {
  const host::Compiled with = compiled(zero(1, 3, kStatesInFile + kValuesInHost));
  const Program& program = with.programs.front();
  const std::int64_t states = kept_bytes(program, BufferKind::optimizer, MemoryPlace::file);
  const std::int64_t values = kept_bytes(program, BufferKind::parameter, MemoryPlace::host);
  for (const host::TransferSummary& each : host::summarize_transfers(program)) {
    if (each.from == MemoryPlace::file || each.to == MemoryPlace::file) {
      EXPECT_EQ(each.bytes, states);
    } else if (each.to == MemoryPlace::host) {
      EXPECT_EQ(each.bytes, values);
    } else {
      EXPECT_GE(each.bytes, values * 2 * program.micro_batches);
    }
  }
  EXPECT_EQ(host::summarize_transfers(program).size(), 4U);
}

/// \return why the strategies are refused.
std::string refusal(const std::string& strategies) {
  try {
    (void)compiled(strategies);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(OffloadOptions, ParametersAreOffloadedInStage3Only) {
  for (const int stage : {1, 2}) {
    EXPECT_NE(refusal(zero(2, stage, kValuesInHost)).find("offload_param: found \"host\" with stage"),
              std::string::npos);
  }
  EXPECT_NE(refusal(zero(2, 3, "offload_param = \"cloud\"\n")).find("cloud"), std::string::npos);
}

}  // namespace
}  // namespace strata::testing
