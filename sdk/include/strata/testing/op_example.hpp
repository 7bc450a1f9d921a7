#pragma once

#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/tensor.hpp"

namespace strata::testing {

/// One operand of an OpExample.
struct ExampleOperand {
  Dims dims = {};
  /// f32 stands for every real type in which the example runs. i32 operands are inputs, without a gradient.
  DType dtype = DType::f32;
  /// For i32: the dimension whose indices the values are. The values are at least 0 and below its size.
  Dim indexes = {};
  /// True: no gradient flows to the operand, as to a table of constants.
  bool is_constant = false;
  /// True: the operand is f32 when the example runs in a shorter type, as statistics and tables are.
  bool stays_f32 = false;
};

/// An instance of an op: shapes and attributes with which its gradient and its kernels are checked. Small sizes are
/// enough, but a size of 1 hides wrong indices.
struct OpExample {
  std::string op;
  /// Sizes of all dimensions.
  DimSizes sizes;
  std::vector<ExampleOperand> operands;
  Attributes attributes = {};
};

}  // namespace strata::testing
