// Every op of the cuda device against the reference device, for every row of the table. STRATA_CUDA_PLUGIN says which
// plugin: the one for GPUs, or the one that emulates them.

#include <gtest/gtest.h>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

/// In f64 no row is less accurate than a stack has to be.
constexpr double kToleranceInF64 = 1e-9;

std::vector<std::vector<double>> run_on_gpu(const OpCase& op_case, const OpInstance& instance, const CaseValues& values,
                                            std::int64_t index) {
  return run_case(op_case, instance, values, *make_device(STRATA_CUDA_PLUGIN, {{"index", index}}));
}

void expect_equals_reference(const OpCase& op_case, DType real) {
  const auto reference = make_device("reference");
  const OpInstance instance = make_instance(op_case, core_registry(), real);
  ASSERT_EQ(make_device(STRATA_CUDA_PLUGIN)->unsupported(instance), std::nullopt);
  const Expected expected(op_case, instance, *reference);
  const auto found = run_on_gpu(op_case, instance, expected.values, 0);
  ASSERT_EQ(found.size(), expected.results.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    // Some rows ask for a result in f32 also there.
    const bool in_f64 = real == DType::f64 && instance.results[i].dtype == DType::f64;
    const double tolerance = in_f64 ? kToleranceInF64 : op_case.tolerance;
    expect_close(found[i], expected.results[i], tolerance + rounding(instance, i));
  }
  if (kSanitized) return;
  // Once more: on a GPU with other timing, in the emulator with threads in the opposite order.
  const std::int64_t other = std::string(STRATA_CUDA_PLUGIN) == "cuda_emulated" ? 1 : 0;
  EXPECT_EQ(run_on_gpu(op_case, instance, expected.values, other), found) << "results depend on timing";
}

class OpOnCuda : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpOnCuda, EqualsReferenceInF32) { expect_equals_reference(GetParam(), DType::f32); }
TEST_P(OpOnCuda, EqualsReferenceInBf16) { expect_equals_reference(GetParam(), DType::bf16); }
TEST_P(OpOnCuda, EqualsReferenceInF16) {
  if (kSanitized) GTEST_SKIP() << "reads and writes as bf16 does";
  expect_equals_reference(GetParam(), DType::f16);
}
TEST_P(OpOnCuda, EqualsReferenceInF64) {
  if (kSanitized) GTEST_SKIP() << "reads and writes as f32 does";
  expect_equals_reference(GetParam(), DType::f64);
}

TEST_P(OpOnCuda, TakesOperandsAndResultsThatAreNotAligned) {
  OpCase in_views = GetParam();
  in_views.in_views = true;
  expect_equals_reference(in_views, DType::bf16);
}

TEST_P(OpOnCuda, GivesTheSameBitsInAGraph) {
  OpCase in_graph = GetParam();
  in_graph.in_graph = true;
  const auto reference = make_device("reference");
  const OpInstance instance = make_instance(GetParam(), core_registry(), DType::bf16);
  const CaseValues values = make_values(GetParam(), instance, *reference);
  // On devices of their own: the graph finds no step's values left by another launch.
  const auto expected = run_on_gpu(GetParam(), instance, values, 0);
  EXPECT_EQ(run_on_gpu(in_graph, instance, values, 0), expected);
}

INSTANTIATE_TEST_SUITE_P(Table, OpOnCuda, ::testing::ValuesIn(device_cases()),
                         [](const ::testing::TestParamInfo<OpCase>& test) { return test.param.name; });

TEST(CudaDevice, RefusesAGpuThatIsNotThere) {
  EXPECT_THROW(make_device(STRATA_CUDA_PLUGIN, {{"index", std::int64_t{1000}}}), ConfigurationError);
}

TEST(CudaDevice, RefusesUpdatesByAGradientThatIsWiderThanTheStates) {
  const auto device = make_device(STRATA_CUDA_PLUGIN);
  for (const OpCase& op_case : all_op_cases()) {
    if (!op_case.op.ends_with("_update")) continue;
    SCOPED_TRACE(op_case.name);
    OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
    instance.operands[0].dtype = DType::f64;
    const auto reason = device->unsupported(instance);
    ASSERT_TRUE(reason.has_value());
    EXPECT_NE(reason->find("operand 0 cannot be f64"), std::string::npos) << *reason;
  }
}

TEST(CudaDevice, RefusesToFuseWhatItDoesNotGainBy) {
  const auto device = make_device(STRATA_CUDA_PLUGIN);
  for (const OpCase& op_case : all_op_cases()) {
    if (!op_case.optional) continue;
    SCOPED_TRACE(op_case.name);
    OpInstance other_activation = make_instance(op_case, core_registry(), DType::bf16);
    other_activation.attributes.set("kind", std::string("silu"));
    EXPECT_NE(device->unsupported(other_activation), std::nullopt);
    OpInstance adding = make_instance(op_case, core_registry(), DType::bf16);
    adding.accumulate = true;
    EXPECT_NE(device->unsupported(adding), std::nullopt);
  }
}

TEST(CudaDevice, RefusesToReduceMoreSourcesThanALaunchTakes) {
  const auto device = make_device(STRATA_CUDA_PLUGIN);
  const auto memory = device->allocate(4);
  const std::vector<const void*> sources(257, memory.get());
  const auto reduce = [&](std::size_t count) {
    device->reduce(StreamKind::compute, Reduction::sum, DType::f32, memory.get(), {sources.data(), count}, 1);
  };
  EXPECT_NO_THROW(reduce(256));
  EXPECT_THROW(reduce(257), VerificationError);
}

}  // namespace
}  // namespace strata::testing
