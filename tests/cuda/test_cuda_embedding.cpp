// The gradient of embeddings on the cuda device for tokens that occur at many positions: the order of additions, and
// that the work grows only with the number of positions.

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "random_choice.hpp"
#include "sanitized.hpp"

namespace strata::testing {
namespace {

/// Number of warps in a block. Each sums every eighth position of a row.
constexpr std::size_t kWarps = 8;

OpCase gradient_case(std::int64_t positions, std::int64_t vocabulary) {
  return {.name = "embedding_gradient",
          .op = "embedding_gradient",
          .sizes = {{"batch", 1}, {"seq", positions}, {"embed", 1}, {"vocab", vocabulary}},
          .operands = {{{"batch", "seq", "embed"}}, {{"batch", "seq"}, Fill::ids, DType::i32}},
          .attributes = {{"result", std::string("vocab embed")}}};
}

std::vector<double> run_gradient(std::int64_t vocabulary, const std::vector<double>& dy,
                                 const std::vector<double>& ids) {
  const OpCase op_case = gradient_case(static_cast<std::int64_t>(ids.size()), vocabulary);
  const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
  const std::vector<double> unwritten(static_cast<std::size_t>(vocabulary), std::numeric_limits<double>::quiet_NaN());
  return run_case(op_case, instance, {{dy, ids}, {unwritten}}, *make_device(STRATA_CUDA_PLUGIN))[0];
}

/// The sum of a row's positions in f32: first those of each warp in ascending order, then the warps.
float sum_in_order(const std::vector<float>& values) {
  float sum = 0;
  for (std::size_t warp = 0; warp < kWarps; ++warp) {
    float of_warp = 0;
    for (std::size_t i = warp; i < values.size(); i += kWarps) of_warp += values[i];
    sum += of_warp;
  }
  return sum;
}

TEST(CudaEmbeddingGradient, AddsPositionsUpInAscendingOrder) {
  RandomChoice choices(1, "embedding");
  // Rows whose numbers have one, two and three digits.
  for (const std::int64_t vocabulary : {std::int64_t{3}, std::int64_t{1000}, std::int64_t{70000}}) {
    SCOPED_TRACE(vocabulary);
    std::vector<double> ids;
    std::vector<double> dy;
    std::vector<std::vector<float>> of_row(static_cast<std::size_t>(vocabulary));
    for (int i = 0; i < 3000; ++i) {
      // Half of the positions name few rows, so that a different order of additions gives different bits.
      const std::int64_t few = vocabulary - 1 - choices.below(3);
      const std::int64_t id = choices.below(2) == 0 ? few : choices.below(vocabulary + 1) - 1;
      const auto value = static_cast<float>(choices.normal());
      ids.push_back(static_cast<double>(id));
      dy.push_back(value);
      if (id >= 0) of_row[static_cast<std::size_t>(id)].push_back(value);
    }
    const std::vector<double> found = run_gradient(vocabulary, dy, ids);
    for (std::size_t row = 0; row < of_row.size(); ++row) {
      ASSERT_EQ(found[row], sum_in_order(of_row[row])) << "row " << row;
    }
  }
}

TEST(CudaEmbeddingGradient, TakesTheTimeOfItsPositionsForATokenThatStandsEverywhere) {
  if (kSanitized) GTEST_SKIP() << "a sanitized build is slower by another factor";
  // If positions were compared with each other, the emulator would take longer than ctest lets a test run.
  constexpr std::size_t kPositions = 2'000'000;
  const auto found = run_gradient(5, std::vector<double>(kPositions, 1.0), std::vector<double>(kPositions, 2.0));
  EXPECT_EQ(found, (std::vector<double>{0, 0, kPositions, 0, 0}));
}

}  // namespace
}  // namespace strata::testing
