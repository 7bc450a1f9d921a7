// Every op of the cuda device against the reference device, for every row of the table. STRATA_CUDA_PLUGIN selects the
// plugin: the one for GPUs or the emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// In f64 every row must be as accurate as a stack.
constexpr double kToleranceInF64 = 1e-9;

std::vector<std::vector<double>> run_on_gpu(const OpCase& op_case, const OpInstance& instance, const CaseValues& values,
                                            std::int64_t index) {
  return run_case(op_case, instance, values, *make_device(STRATA_CUDA_PLUGIN, {{"index", index}}));
}

/// `real`: the type that the row runs in.
void expect_within_tolerance(const OpCase& op_case, const OpInstance& instance, DType real,
                             const std::vector<std::vector<double>>& found, const Expected& expected) {
  ASSERT_EQ(found.size(), expected.results.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    // Some rows have an f32 result even then.
    const bool in_f64 = real == DType::f64 && instance.results[i].dtype == DType::f64;
    const double tolerance = in_f64 ? kToleranceInF64 : op_case.tolerance;
    expect_close(found[i], expected.results[i], tolerance + rounding(instance, i, op_case.inner_roundings));
  }
}

void expect_equals_reference(const OpCase& op_case, DType real) {
  const auto reference = make_device("reference");
  const OpInstance instance = make_instance(op_case, core_registry(), real);
  ASSERT_EQ(make_device(STRATA_CUDA_PLUGIN)->unsupported(instance), std::nullopt);
  const Expected expected(op_case, instance, *reference);
  const auto found = run_on_gpu(op_case, instance, expected.values, 0);
  expect_within_tolerance(op_case, instance, real, found, expected);
  if (kSanitized) return;
  // Run it again: on a GPU with different timing, in the emulator with threads in the opposite order.
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
  // Use separate devices, so that the graph cannot read the step's values of another launch.
  const auto found = run_on_gpu(in_graph, instance, values, 0);
  if (kSanitized) return;
  EXPECT_EQ(found, run_on_gpu(GetParam(), instance, values, 0));
}

#ifdef STRATA_CUDA_EMULATED
/// Emulated GPUs whose errors are as large as NVIDIA's documentation allows: of mixed signs, and of one sign.
constexpr std::int64_t kMixedErrors = 2;
constexpr std::int64_t kHighExponentials = 3;
constexpr std::int64_t kLowExponentials = 4;

/// True if the op's kernels use a GPU's approximate exponentials and quotients.
bool is_approximated(const std::string& op) {
  for (const std::string part : {"activation", "attention", "exponential", "cross_entropy"}) {
    if (op.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Every row's tolerance must hold with these errors, so it also holds on a real GPU, whose approximations are no
/// worse.
TEST_P(OpOnCuda, StaysWithinItsToleranceWithTheLargestErrorsThatAreAllowed) {
  if (kSanitized) GTEST_SKIP() << "reads and writes as the other tests do";
  const auto reference = make_device("reference");
  for (const DType real : {DType::f32, DType::f16}) {
    const OpInstance instance = make_instance(GetParam(), core_registry(), real);
    const Expected expected(GetParam(), instance, *reference);
    for (const std::int64_t gpu : {kMixedErrors, kHighExponentials, kLowExponentials}) {
      if (gpu != kMixedErrors && !is_approximated(GetParam().op)) continue;
      SCOPED_TRACE(std::string(to_string(real)) + " on GPU " + std::to_string(gpu));
      const auto found = run_on_gpu(GetParam(), instance, expected.values, gpu);
      expect_within_tolerance(GetParam(), instance, real, found, expected);
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Table, OpOnCuda, ::testing::ValuesIn(accelerator_cases()),
                         [](const ::testing::TestParamInfo<OpCase>& test) { return test.param.name; });

TEST(CudaDevice, RefusesAGpuThatIsNotThere) {
  EXPECT_THROW(make_device(STRATA_CUDA_PLUGIN, {{"index", std::int64_t{1000}}}), ConfigurationError);
}

TEST(CudaDevice, RefusesUpdatesByAGradientThatIsWiderThanTheStates) {
  const auto device = make_device(STRATA_CUDA_PLUGIN);
  for (const OpCase& op_case : accelerator_cases()) {
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

#ifdef STRATA_CUDA_EMULATED
/// Runs on the emulator only, because it is not documented which products cuBLASLt refuses.
TEST(CudaDevice, NamesTheOpWhoseProductTheLibraryRefuses) {
  const OpCase op_case{.name = "logits",
                       .op = "linear",
                       .sizes = {{"seq", 2}, {"embed", 4}, {"vocab", std::int64_t{1} << 32}},
                       .operands = {{{"seq", "embed"}}, {{"embed", "vocab"}}},
                       .attributes = {{"result", std::string("seq vocab")}}};
  const OpInstance instance = make_instance(op_case, core_registry(), DType::bf16);
  const auto device = make_device(STRATA_CUDA_PLUGIN);
  const auto refused = ThrowsMessage<ConfigurationError>(
      AllOf(HasSubstr("'linear' (logits)"), HasSubstr("1 product of [2, 4] and [4, 4294967296] in bf16"),
            HasSubstr("emulated refusal")));
  EXPECT_THAT([&] { static_cast<void>(device->workspace_bytes(instance)); }, refused);
  EXPECT_THAT([&] { static_cast<void>(device->prepare(instance)); }, refused);
}
#endif

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
