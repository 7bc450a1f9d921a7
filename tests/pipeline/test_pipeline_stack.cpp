#include <gtest/gtest.h>

#include "stacks/stack_configuration.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

struct StackCase {
  const char* name;
  int ranks;
  int micro_batches;
  const char* options;
};

class PipelineStack : public ::testing::TestWithParam<StackCase> {};

/// The stack has dropout, clipping, embeddings that the first and last stage share, and accumulation.
TEST_P(PipelineStack, TrainsAsOneRank) {
  const StackCase& row = GetParam();
  const std::string table =
      "[[strategy]]\nplugin = \"pipeline\"\nsize = " + std::to_string(row.ranks) + "\n" + row.options;
  host::RunConfiguration configuration = small_gpt2(table, 2 * row.micro_batches, 2);
  configuration.model.options["layers"] = OptionValue(std::int64_t{6});
  BuiltPlugins plugins;
  const host::Verification verification = host::verify_stack(configuration, plugins, {3, true});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, PipelineStack,
    ::testing::Values(StackCase{"naive", 2, 3, "schedule = \"naive\"\n"},
                      StackCase{"gpipe", 4, 5, "schedule = \"gpipe\"\n"}, StackCase{"one_f_one_b", 4, 6, ""},
                      StackCase{"fewer_micro_batches_than_stages", 4, 2, ""},
                      StackCase{"interleaved", 2, 4, "schedule = \"interleaved\"\nvirtual_stages = 3\n"},
                      StackCase{"zb_h1", 4, 6, "schedule = \"zb-h1\"\n"},
                      StackCase{"zbv", 4, 8, "schedule = \"zbv\"\n"},
                      StackCase{"given_split", 3, 3, "split = \"1,6,1\"\n"}, StackCase{"one_stage", 1, 2, ""},
                      StackCase{"one_stage_zbv", 1, 3, "schedule = \"zbv\"\n"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
