// The op rotary at a shape of its own: its gradient against finite differences, and its kernels against the reference
// kernel in every real type. Usage: check_rotary PLUGIN

#include <iostream>

#include "strata/testing/check_op.hpp"

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const strata::testing::ExampleOperand table{.dims = {"seq", "head_pair"}, .is_constant = true, .stays_f32 = true};
  const strata::testing::OpExample example{
      .op = "rotary",
      .sizes = {{"batch", 2}, {"seq", 5}, {"heads", 3}, {"head_dim", 6}, {"head_pair", 3}},
      .operands = {{{"batch", "seq", "heads", "head_dim"}}, table, table},
      .attributes = {{"inverse", false}}};
  const strata::testing::OpReport report = strata::testing::check_op(arguments[1], example);
  std::cout << report.text();
  return report.holds() ? 0 : 1;
}
