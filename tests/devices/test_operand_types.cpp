// The type letters of kernels against the types of instances, and the results of a kernel whose result types are
// converted.

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/kernel.hpp"

namespace strata {
namespace {

OpInstance instance(const std::vector<DType>& operands, const std::vector<DType>& results, bool accumulate = false) {
  OpInstance op;
  op.op = "test";
  op.name = "x";
  op.accumulate = accumulate;
  for (const DType dtype : operands) op.operands.push_back({dtype, {"n"}, {4}});
  for (const DType dtype : results) op.results.push_back({dtype, {"n"}, {4}});
  return op;
}

PreparedKernel prepare_nothing(const OpInstance& /*op*/, const KernelEnvironment& /*environment*/) {
  return {[](const KernelArguments&) {}};
}

/// A device whose only kernels are one for the op "test" and those that convert results.
class OneKernel {
 public:
  explicit OneKernel(KernelSignature signature, const std::vector<DType>& reals) {
    signature.reals = reals;
    signature.indices = {DType::i32};
    for (const char* op : {ops::kCast, ops::kAccumulate}) {
      KernelSignature finish{"r", "r"};
      finish.reals = reals;
      registry_.add({.op = op, .signature = finish, .prepare = prepare_nothing}, "test");
    }
    const auto prepare = [seen = seen_](const OpInstance& op, const KernelEnvironment& environment) {
      *seen = op;
      return prepare_nothing(op, environment);
    };
    registry_.add({.op = "test", .signature = signature, .prepare = prepare}, "test");
  }

  /// The reason without the device's and the op's name.
  [[nodiscard]] std::string reason(const OpInstance& op) const {
    constexpr std::string_view kLabel = "the device's 'test' (x): ";
    const std::string reason = selector_.unsupported(op).value_or(std::string(kLabel));
    EXPECT_TRUE(reason.starts_with(kLabel)) << reason;
    return reason.substr(kLabel.size());
  }

  /// The instance that the kernel was prepared for.
  [[nodiscard]] OpInstance natural(const OpInstance& op) const {
    workspace_bytes_ = selector_.prepare(op).workspace_bytes;
    return *seen_;
  }
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  KernelRegistry registry_;
  KernelEnvironment environment_{"host", 1};
  KernelSelector selector_{"the device", registry_, environment_};
  std::shared_ptr<OpInstance> seen_ = std::make_shared<OpInstance>();
  mutable std::int64_t workspace_bytes_ = 0;
};

const std::vector<DType> kReals = {DType::f32, DType::bf16, DType::f64};

struct Row {
  KernelSignature kernel;
  OpInstance op;
  /// Why the instance is refused. Empty if it is accepted.
  std::string reason;
};

TEST(OperandTypes, FitTheirLettersOrAreNamed) {
  const std::vector<Row> rows = {
      {{"tt", "t"}, instance({DType::bf16, DType::bf16}, {DType::bf16}), ""},
      {{"tt", "t"}, instance({DType::bf16, DType::f32}, {DType::bf16}), "operand 1 cannot be f32; accepted: bf16"},
      {{"tt", "t"},
       instance({DType::f16, DType::f16}, {DType::f16}),
       "operand 0 cannot be f16; accepted: f32, bf16, f64"},
      {{"tt", "t"}, instance({DType::f32}, {DType::f32}), "takes 2 operands, found 1"},
      {{"t*", "t"}, instance({DType::f32, DType::f32, DType::f32}, {DType::f32}), ""},
      {{"t*", "t"}, instance({}, {DType::f32}), "takes 1 or more operands, found 0"},
      {{"", "s"}, instance({}, {DType::f64}), ""},
      {{"tf", "f"}, instance({DType::bf16, DType::f32}, {DType::f32}), ""},
      {{"tf", "f"}, instance({DType::bf16, DType::bf16}, {DType::f32}), "operand 1 cannot be bf16; accepted: f32"},
      {{"tf", "f"}, instance({DType::f64, DType::f64}, {DType::f64}), ""},
      {{"tf", "f"}, instance({DType::f64, DType::f32}, {DType::f64}), "operand 1 cannot be f32; accepted: f64"},
      {{"ff", "f"}, instance({DType::f64, DType::f64}, {DType::f64}), ""},
      {{"rd", "rf"}, instance({DType::f64, DType::f64}, {DType::f64, DType::f64}), ""},
      {{"rd", "rf"}, instance({DType::bf16, DType::f64}, {DType::bf16, DType::f32}), ""},
      {{"ti", "t"}, instance({DType::f32, DType::i64}, {DType::f32}), "operand 1 cannot be i64; accepted: i32"},
      {{"b", "r"}, instance({DType::i8}, {DType::f32}), ""},
      {{"t", "t"}, instance({DType::f32}, {DType::bf16}), ""},
      {{"t", "d"}, instance({DType::f32}, {DType::f32}), "result 0 cannot be f32; accepted: f64"},
      {{"i", "i"}, instance({DType::i32}, {DType::i32}, true), "cannot add to result 0 in i32"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.kernel.operands + " -> " + row.kernel.results);
    EXPECT_EQ(OneKernel(row.kernel, kReals).reason(row.op), row.reason);
  }
}

TEST(OperandTypes, AreRefusedWhereDimsAndSizesDiffer) {
  OpInstance op = instance({DType::f32}, {DType::f32});
  op.results[0].shape.push_back(2);
  EXPECT_EQ(OneKernel({"t", "t"}, kReals).reason(op), "result 0 names other dims than it has");
}

TEST(OperandTypes, OfADeviceWithoutF64KeepFullResultsInF32) {
  EXPECT_EQ(OneKernel({"ff", "f"}, {DType::f32, DType::bf16}).reason(instance({DType::f64, DType::f64}, {DType::f64})),
            "operand 0 cannot be f64; accepted: f32");
}

TEST(NaturalInstance, IsTheWantedOneWhereTheKernelLeavesIt) {
  const OneKernel kernel({"tf", "tf", true}, kReals);
  const OpInstance natural = kernel.natural(instance({DType::bf16, DType::f32}, {DType::bf16, DType::f32}, true));
  EXPECT_EQ(kernel.workspace_bytes(), 0) << "nothing is converted or added afterwards";
  EXPECT_TRUE(natural.accumulate);
}

TEST(NaturalInstance, HasTheTypesOfTheLettersAndAddsNothing) {
  const OneKernel kernel({"t", "tf", true}, kReals);
  const OpInstance natural = kernel.natural(instance({DType::bf16}, {DType::f32, DType::bf16}, true));
  EXPECT_EQ(kernel.workspace_bytes(), 2 * 64) << "a cache line for each result";
  EXPECT_FALSE(natural.accumulate);
  EXPECT_EQ(natural.results[0].dtype, DType::bf16);
  EXPECT_EQ(natural.results[1].dtype, DType::f32);
}

TEST(NaturalInstance, AddsNothingWhereTheKernelCannot) {
  const OneKernel kernel({"t", "t"}, kReals);
  const OpInstance natural = kernel.natural(instance({DType::f32}, {DType::f32}, true));
  EXPECT_EQ(kernel.workspace_bytes(), 64);
  EXPECT_FALSE(natural.accumulate);
}

/// With a finishing step the selector adds pieces behind the kernel's own, which a negative size would move into the
/// memory of other values.
TEST(Workspace, IsJudgedWithAndWithoutAFinishingStep) {
  KernelEnvironment environment("host", 1);
  for (const std::int64_t bytes : {std::int64_t{-64}, std::numeric_limits<std::int64_t>::max()}) {
    KernelRegistry registry;
    const auto prepare = [bytes](const OpInstance&, const KernelEnvironment&) {
      return PreparedKernel{[](const KernelArguments&) {}, bytes};
    };
    registry.add({.op = "test", .signature = {"t", "t"}, .prepare = prepare}, "strategy 'odd'");
    registry.add({.op = ops::kAccumulate, .signature = {"r", "r"}, .prepare = prepare_nothing}, "test");
    const KernelSelector selector("the device", registry, environment);
    for (const bool accumulate : {false, true}) {
      try {
        static_cast<void>(selector.prepare(instance({DType::f32}, {DType::f32}, accumulate)));
        ADD_FAILURE() << "accepted " << bytes;
      } catch (const ConfigurationError& error) {
        EXPECT_EQ(std::string(error.what()), "the device's 'test' (x): the kernel of strategy 'odd' asks for " +
                                                 std::to_string(bytes) +
                                                 " bytes of scratch memory; accepted: 0 to 281474976710656");
      }
    }
  }
}

}  // namespace
}  // namespace strata
