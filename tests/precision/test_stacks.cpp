// Stacks with the precision strategy in f64, in which types stay unchanged and scaling the loss is exact.

#include "stacks/stack_row.hpp"

namespace strata::testing {
namespace {

class PrecisionStacks : public ::testing::TestWithParam<StackRow> {};

TEST_P(PrecisionStacks, TrainAsOneRank) { expect_trains_as_one_rank(GetParam()); }

std::vector<StackRow> rows() {
  const std::string scaled = table("precision", "compute = \"fp16\"");
  const std::string by_three = table("precision", "loss_scale = \"static\"\ninitial_scale = 3000.0");
  const std::string in_bf16 = table("precision", "compute = \"bf16\"\nreduce = \"bf16\"");
  return {{"alone", scaled, 1},
          {"static_scale", by_three, 1},
          {"inside_ddp", table("ddp", 2) + scaled, 2},
          {"outside_ddp", in_bf16 + table("ddp", 2), 2},
          {"zero", table("zero", 2, "stage = 3") + scaled, 2},
          {"single_writer", table("dataparallel", 2) + scaled, 2},
          {"tensor", scaled + table("tensor", 2), 2},
          {"pipeline", table("pipeline", 2) + by_three, 2},
          {"recompute", scaled + table("recompute", "") + table("ddp", 2), 2}};
}

INSTANTIATE_TEST_SUITE_P(Rows, PrecisionStacks, ::testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
