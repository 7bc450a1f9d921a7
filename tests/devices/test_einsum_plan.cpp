// Plans of einsums, executed by plain loops and compared with the definition of the einsum, for examples and for random
// dims.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "shared/einsum.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::devices {
namespace {

using kernels::elements;

using Numbers = std::vector<double>;

struct Einsum {
  OperandDescription x;
  OperandDescription w;
  OperandDescription y;
};

OperandDescription operand(const Dims& dims, const DimSizes& sizes) {
  return {DType::f64, dims, shape_of(dims, sizes)};
}

Einsum einsum(const Dims& x, const Dims& w, const Dims& y, const DimSizes& sizes) {
  return {operand(x, sizes), operand(w, sizes), operand(y, sizes)};
}

std::string to_string(const Einsum& einsum) {
  std::string text;
  for (const auto* each : {&einsum.x, &einsum.w, &einsum.y}) {
    text += "[";
    for (std::size_t i = 0; i < each->dims.size(); ++i) {
      text += (i == 0 ? "" : " ") + each->dims[i] + "=" + std::to_string(each->shape[i]);
    }
    text += "]";
  }
  return text;
}

/// Small whole numbers: sums of products are exact.
Numbers filled(const OperandDescription& operand, std::mt19937& random) {
  Numbers values(static_cast<std::size_t>(elements(operand)));
  for (double& value : values) value = static_cast<double>(random() % 7) - 3;
  return values;
}

std::size_t place(const OperandDescription& operand, const DimSizes& at) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < operand.dims.size(); ++i) index = index * operand.shape[i] + at.at(operand.dims[i]);
  return static_cast<std::size_t>(index);
}

/// The einsum by definition: adds every product of an element of x and one of w to its element of the result.
Numbers by_definition(const Einsum& einsum, const Numbers& x, const Numbers& w) {
  DimSizes sizes;
  for (const auto* each : {&einsum.x, &einsum.w}) {
    for (std::size_t i = 0; i < each->dims.size(); ++i) sizes[each->dims[i]] = each->shape[i];
  }
  std::int64_t points = 1;
  for (const auto& [dim, size] : sizes) points *= size;
  Numbers y(static_cast<std::size_t>(elements(einsum.y)));
  for (std::int64_t point = 0; point < points; ++point) {
    DimSizes at;
    std::int64_t rest = point;
    for (const auto& [dim, size] : sizes) {
      at[dim] = rest % size;
      rest /= size;
    }
    y[place(einsum.y, at)] += x[place(einsum.x, at)] * w[place(einsum.w, at)];
  }
  return y;
}

Numbers permuted(const Permutation& permutation, const Numbers& from) {
  Numbers to(static_cast<std::size_t>(permutation.elements()));
  permute(permutation, from.data(), [&](std::int64_t i, double value) { to[static_cast<std::size_t>(i)] = value; });
  return to;
}

double& element(Numbers& values, const MatrixLayout& layout, std::int64_t matrix, std::int64_t row,
                std::int64_t column) {
  const std::int64_t in_matrix = layout.transposed ? column * layout.leading + row : row * layout.leading + column;
  return values.at(static_cast<std::size_t>(matrix * layout.batch_stride + in_matrix));
}

Numbers by_plan(const Einsum& einsum, const EinsumPlan& plan, const Numbers& x, const Numbers& w) {
  Numbers a = plan.swapped ? w : x;
  Numbers b = plan.swapped ? x : w;
  if (plan.pack_a) a = permuted(*plan.pack_a, a);
  if (plan.pack_b) b = permuted(*plan.pack_b, b);
  Numbers c(static_cast<std::size_t>(elements(einsum.y)));
  for (std::int64_t matrix = 0; matrix < plan.batch; ++matrix) {
    for (std::int64_t row = 0; row < plan.rows; ++row) {
      for (std::int64_t column = 0; column < plan.columns; ++column) {
        for (std::int64_t k = 0; k < plan.depth; ++k) {
          element(c, plan.c, matrix, row, column) +=
              element(a, plan.a, matrix, row, k) * element(b, plan.b, matrix, k, column);
        }
      }
    }
  }
  return plan.unpack ? permuted(*plan.unpack, c) : c;
}

EinsumPlan plan_of(const Einsum& einsum, MatrixLayouts layouts) {
  return plan_einsum(einsum.x, einsum.w, einsum.y, layouts);
}

void expect_plans_to_be_right(const Einsum& einsum, std::mt19937& random) {
  SCOPED_TRACE(to_string(einsum));
  ASSERT_EQ(unsupported_einsum(einsum.x, einsum.w, einsum.y), std::nullopt);
  const Numbers x = filled(einsum.x, random);
  const Numbers w = filled(einsum.w, random);
  const Numbers expected = by_definition(einsum, x, w);
  for (const MatrixLayouts layouts : {MatrixLayouts::contiguous, MatrixLayouts::strided}) {
    const EinsumPlan plan = plan_of(einsum, layouts);
    EXPECT_FALSE(plan.c.transposed);
    EXPECT_EQ(by_plan(einsum, plan, x, w), expected) << (layouts == MatrixLayouts::strided ? "strided" : "contiguous");
  }
}

int copies(const EinsumPlan& plan) {
  return static_cast<int>(plan.pack_a.has_value()) + static_cast<int>(plan.pack_b.has_value()) +
         static_cast<int>(plan.unpack.has_value());
}

const DimSizes kSizes = {{"batch", 2}, {"seq", 3}, {"embed", 4}, {"ffn", 5}, {"heads", 3}, {"expert", 2}, {"one", 1}};

/// The number of operands and results that each kind of device copies.
struct Example {
  Einsum einsum;
  int contiguous;
  int strided;
};

std::vector<Example> examples() {
  const auto make = [](const Dims& x, const Dims& w, const Dims& y) { return einsum(x, w, y, kSizes); };
  return {
      {make({"batch", "seq", "embed"}, {"embed", "ffn"}, {"batch", "seq", "ffn"}), 0, 0},
      {make({"batch", "seq", "ffn"}, {"embed", "ffn"}, {"batch", "seq", "embed"}), 0, 0},
      {make({"batch", "seq", "embed"}, {"batch", "seq", "ffn"}, {"embed", "ffn"}), 0, 0},
      {make({"batch", "seq", "embed"}, {"embed", "ffn"}, {"ffn", "batch", "seq"}), 0, 0},
      {make({"batch", "embed"}, {"embed", "heads", "ffn"}, {"batch", "heads", "ffn"}), 0, 0},
      {make({"expert", "batch", "embed"}, {"expert", "embed", "ffn"}, {"expert", "batch", "ffn"}), 0, 0},
      {make({"batch", "expert", "embed"}, {"expert", "embed", "ffn"}, {"batch", "expert", "ffn"}), 2, 0},
      {make({"batch", "expert", "embed"}, {"expert", "ffn", "embed"}, {"ffn", "expert", "batch"}), 2, 0},
      {make({"batch", "one", "embed"}, {"embed", "one", "ffn"}, {"one", "batch", "ffn"}), 0, 0},
      {make({"batch", "embed", "expert"}, {"embed", "ffn", "expert"}, {"batch", "ffn", "expert"}), 3, 3},
      {make({"batch", "heads", "embed"}, {"embed", "heads", "ffn"}, {"batch", "ffn"}), 1, 1},
      {make({"batch", "seq", "embed"}, {"embed", "ffn"}, {"batch", "ffn", "seq"}), 1, 1},
  };
}

TEST(EinsumPlan, CopiesOnlyWhatDoesNotLieAsMatrices) {
  std::mt19937 random(1);
  for (const Example& each : examples()) {
    SCOPED_TRACE(to_string(each.einsum));
    expect_plans_to_be_right(each.einsum, random);
    EXPECT_EQ(copies(plan_of(each.einsum, MatrixLayouts::contiguous)), each.contiguous);
    EXPECT_EQ(copies(plan_of(each.einsum, MatrixLayouts::strided)), each.strided);
  }
}

/// Dims of all four kinds, of sizes from 1, in any order in each tensor.
Einsum random_einsum(std::mt19937& random) {
  std::array<Dims, 3> dims;
  DimSizes sizes;
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) {
    sizes[name] = 1 + static_cast<std::int64_t>(random() % 3);
    const auto without = random() % 5;  // the tensor that lacks the dim; 3: all have it, 4: none
    if (without == 4) continue;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i != without) dims.at(i).push_back(name);
    }
  }
  for (Dims& each : dims) std::shuffle(each.begin(), each.end(), random);
  return einsum(dims[0], dims[1], dims[2], sizes);
}

TEST(EinsumPlan, IsRightForRandomDims) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000 && !HasFailure(); ++i) expect_plans_to_be_right(random_einsum(random), random);
}

TEST(EinsumPlan, IsRefusedForDimsThatItCannotSum) {
  const OperandDescription x = operand({"seq", "embed"}, kSizes);
  const OperandDescription w = operand({"embed", "ffn"}, kSizes);
  EXPECT_EQ(unsupported_einsum(x, w, operand({"seq", "heads"}, kSizes)), "no operand has dim 'heads'");
  EXPECT_EQ(unsupported_einsum(x, w, operand({"seq"}, kSizes)), "dim 'ffn' stands in one operand only");
  OperandDescription other_type = w;
  other_type.dtype = DType::f32;
  EXPECT_EQ(unsupported_einsum(x, other_type, operand({"seq", "ffn"}, kSizes)), "operands differ in type");
}

TEST(EinsumPlan, AddsABiasOverItsColumnsOnly) {
  const auto adds = [](const Einsum& einsum, const Dims& bias) {
    return is_over_columns(plan_of(einsum, MatrixLayouts::strided), operand(bias, kSizes), einsum.y);
  };
  const Einsum to_heads = einsum({"batch", "embed"}, {"embed", "heads", "ffn"}, {"batch", "heads", "ffn"}, kSizes);
  EXPECT_TRUE(adds(to_heads, {"heads", "ffn"}));
  EXPECT_FALSE(adds(to_heads, {"ffn"}));
  EXPECT_TRUE(adds(einsum({"seq", "embed"}, {"embed", "ffn"}, {"ffn", "seq"}, kSizes), {"seq"}));
  EXPECT_FALSE(adds(einsum({"seq", "embed"}, {"embed", "ffn"}, {"seq", "ffn"}, kSizes), {"seq"}));
}

}  // namespace
}  // namespace strata::devices
