#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// c[rows, columns] = a[rows, depth] * b[depth, columns] + bias[columns], row-major, accumulated in f32.
struct MatrixProductShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_a = false;  ///< a is stored as [depth, rows]
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  bool accumulate = false;   ///< true: adds to the contents of c
  bool bias = false;
  Element element = Element::f32;  ///< type of a, b and bias
  Element result = Element::f32;   ///< type of c: f32, or the type of a and b
};

/// A matrix product by oneDNN, prepared once and run often. Results are equal in all runs with the same number of
/// threads. Only one thread at a time may run an object.
class MatrixProduct {
 public:
  /// Throws std::runtime_error if oneDNN does not support the shape.
  MatrixProduct(const MatrixProductShape& shape, int threads);
  ~MatrixProduct();
  MatrixProduct(MatrixProduct&&) noexcept;
  MatrixProduct& operator=(MatrixProduct&&) noexcept;

  /// Bytes of scratch memory for run(). Types for which oneDNN has no fast product on this processor (f16, and often
  /// bf16) are converted to f32 first.
  std::int64_t workspace_bytes() const;

  /// `bias` is read only if the shape has one.
  void run(const void* a, const void* b, const void* bias, void* c, void* workspace = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::cpu
