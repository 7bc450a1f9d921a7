// Letters of kernels against the types of instances.

#include <gtest/gtest.h>

#include "shared/operand_types.hpp"

namespace strata::devices {
namespace {

const DeviceTypes kTypes = {.reals = {DType::f32, DType::bf16, DType::f64}, .indices = {DType::i32}};

OpInstance instance(const std::vector<DType>& operands, const std::vector<DType>& results, bool accumulate = false) {
  OpInstance op;
  op.accumulate = accumulate;
  for (const DType dtype : operands) op.operands.push_back({dtype, {"n"}, {4}});
  for (const DType dtype : results) op.results.push_back({dtype, {"n"}, {4}});
  return op;
}

struct Row {
  KernelSignature kernel;
  OpInstance op;
  /// Empty: the instance fits.
  std::string reason;
};

TEST(OperandTypes, FitTheirLettersOrAreNamed) {
  const std::vector<Row> rows = {
      {{"tt", "t"}, instance({DType::bf16, DType::bf16}, {DType::bf16}), ""},
      {{"tt", "t"}, instance({DType::bf16, DType::f32}, {DType::bf16}), "operand 1 cannot be f32"},
      {{"tt", "t"}, instance({DType::f16, DType::f16}, {DType::f16}), "operand 0 cannot be f16"},
      {{"tt", "t"}, instance({DType::f32}, {DType::f32}), "takes 2 operands, found 1"},
      {{"t*", "t"}, instance({DType::f32, DType::f32, DType::f32}, {DType::f32}), ""},
      {{"t*", "t"}, instance({}, {DType::f32}), "takes 1 or more operands, found 0"},
      {{"", "s"}, instance({}, {DType::f64}), ""},
      {{"tf", "f"}, instance({DType::bf16, DType::f32}, {DType::f32}), ""},
      {{"tf", "f"}, instance({DType::bf16, DType::bf16}, {DType::f32}), "operand 1 cannot be bf16"},
      {{"tf", "f"}, instance({DType::f64, DType::f64}, {DType::f64}), ""},
      {{"tf", "f"}, instance({DType::f64, DType::f32}, {DType::f64}), "operand 1 cannot be f32"},
      {{"ff", "f"}, instance({DType::f64, DType::f64}, {DType::f64}), ""},
      {{"rd", "rf"}, instance({DType::f64, DType::f64}, {DType::f64, DType::f64}), ""},
      {{"rd", "rf"}, instance({DType::bf16, DType::f64}, {DType::bf16, DType::f32}), ""},
      {{"ti", "t"}, instance({DType::f32, DType::i64}, {DType::f32}), "operand 1 cannot be i64"},
      {{"b", "r"}, instance({DType::i8}, {DType::f32}), ""},
      {{"t", "t"}, instance({DType::f32}, {DType::bf16}), ""},
      {{"t", "d"}, instance({DType::f32}, {DType::f32}), "result 0 cannot be f32"},
      {{"i", "i"}, instance({DType::i32}, {DType::i32}, true), "cannot add to result 0 in i32"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.kernel.operands) + " -> " + std::string(row.kernel.results));
    EXPECT_EQ(type_mismatch(row.kernel, row.op, kTypes).value_or(""), row.reason);
  }
}

TEST(OperandTypes, AreRefusedWhereDimsAndSizesDiffer) {
  OpInstance op = instance({DType::f32}, {DType::f32});
  op.results[0].shape.push_back(2);
  EXPECT_EQ(type_mismatch({"t", "t"}, op, kTypes), "result 0 names other dims than it has");
}

TEST(OperandTypes, OfADeviceWithoutF64KeepFullResultsInF32) {
  const DeviceTypes types = {.reals = {DType::f32, DType::bf16}, .indices = {}};
  EXPECT_EQ(type_mismatch({"ff", "f"}, instance({DType::f64, DType::f64}, {DType::f64}), types),
            "operand 0 cannot be f64");
}

TEST(NaturalInstance, IsTheWantedOneWhereTheKernelLeavesIt) {
  const OpInstance op = instance({DType::bf16, DType::f32}, {DType::bf16, DType::f32}, true);
  const NaturalInstance natural = natural_instance({"tf", "tf", true}, op, kTypes);
  EXPECT_TRUE(natural.is_wanted);
  EXPECT_TRUE(natural.op.accumulate);
}

TEST(NaturalInstance, HasTheTypesOfTheLettersAndAddsNothing) {
  const OpInstance op = instance({DType::bf16}, {DType::f32, DType::bf16}, true);
  const NaturalInstance natural = natural_instance({"t", "tf", true}, op, kTypes);
  EXPECT_FALSE(natural.is_wanted);
  EXPECT_FALSE(natural.op.accumulate);
  EXPECT_EQ(natural.op.results[0].dtype, DType::bf16);
  EXPECT_EQ(natural.op.results[1].dtype, DType::f32);
}

TEST(NaturalInstance, AddsNothingWhereTheKernelCannot) {
  const NaturalInstance natural = natural_instance({"t", "t"}, instance({DType::f32}, {DType::f32}, true), kTypes);
  EXPECT_FALSE(natural.is_wanted);
  EXPECT_FALSE(natural.op.accumulate);
}

}  // namespace
}  // namespace strata::devices
