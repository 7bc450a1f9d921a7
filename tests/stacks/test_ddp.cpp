#include <gtest/gtest.h>

#include <cmath>

#include "stack_configuration.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

struct DdpCase {
  const char* name;
  int ranks;
  int global_batch;
  int micro_batch;
  const char* options;
};

class Ddp : public ::testing::TestWithParam<DdpCase> {};

TEST_P(Ddp, TrainsAsOneRank) {
  const DdpCase& row = GetParam();
  const std::string table = "[[strategy]]\nplugin = \"ddp\"\nsize = " + std::to_string(row.ranks) + "\n" + row.options;
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(table, row.global_batch, row.micro_batch), plugins, {3, true});
  EXPECT_EQ(verification.mesh.rank_count(),
            row.ranks * (std::string(row.options).find("plugin") == std::string::npos ? 1 : 2));
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
  // The norm exceeds the limit, so clipping was active.
  EXPECT_GT(verification.single.gradient_norms.front(), 0.5);
  EXPECT_EQ(verification.difference.excluded, (std::vector<std::string>{"h.0.attn.k.bias", "h.1.attn.k.bias"}));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Ddp,
    ::testing::Values(DdpCase{"two", 2, 8, 2, ""}, DdpCase{"three", 3, 12, 2, ""}, DdpCase{"four", 4, 16, 2, ""},
                      DdpCase{"eight", 8, 16, 1, ""}, DdpCase{"small_buckets", 2, 8, 1, "bucket_mb = 0.001\n"},
                      DdpCase{"no_overlap", 2, 8, 2, "overlap = false\n"}, DdpCase{"one_micro_batch", 2, 8, 4, ""},
                      DdpCase{"two_axes", 2, 8, 1, "[[strategy]]\nplugin = \"ddp\"\nsize = 2\naxis = \"replica\"\n"}),
    [](const auto& info) { return info.param.name; });

TEST(Verify, ShrinksToWhatTheStackNeeds) {
  BuiltPlugins plugins;
  const host::RunConfiguration configuration = small_gpt2("[[strategy]]\nplugin = \"ddp\"\nsize = 4\n", 64, 4);
  const host::Verification verification = host::verify_stack(configuration, plugins, {});
  EXPECT_EQ(verification.mesh.rank_count(), 4);
  EXPECT_EQ(verification.configuration.batch.global, 24);  // 3 micro-batches of 2 on 4 replicas
  EXPECT_LT(verification.difference.worst(), 1e-9);
}

/// The proof must be able to fail: with another learning rate the single rank has another result.
TEST(Verify, TellsDifferentResultsApart) {
  host::StackResult one;
  one.losses = {1.0, 2.0};
  one.gradient_norms = {1.0, 1.0};
  one.parameters = {{"w", {1.0, 2.0}}};
  host::StackResult other = one;
  other.parameters["w"][1] += 1e-8;
  Graph graph;
  graph.parameters.push_back({"w", {}, {}, true, false});
  EXPECT_EQ(host::compare(one, one, graph).worst(), 0);
  EXPECT_NEAR(host::compare(other, one, graph).worst(), 0.5e-8, 1e-12);
  other = one;
  other.losses.pop_back();
  EXPECT_GT(host::compare(other, one, graph).worst(), 1);
  other = one;
  other.parameters["w"][0] = std::nan("");
  EXPECT_GT(host::compare(other, one, graph).worst(), 1);
}

}  // namespace
}  // namespace strata::testing
