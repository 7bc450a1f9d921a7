#pragma once

#include <cstdint>
#include <memory>

#include "kernels/element.hpp"

namespace strata::cpu {

/// c[rows, columns] = a[rows, depth] * b[depth, columns] + bias[columns], row-major, added up in f32.
struct MatrixProductShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_a = false;  ///< a is stored as [depth, rows]
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  bool accumulate = false;   ///< add to what c holds
  bool bias = false;
  Element element = Element::f32;  ///< of a, b and bias
  Element result = Element::f32;   ///< of c: f32, or the type of a and b
};

/// One matrix product, prepared once and run often, by oneDNN. Results are the same in every run with the same number
/// of threads. One thread at a time may run an object.
class MatrixProduct {
 public:
  /// Throws std::runtime_error where oneDNN refuses the shape.
  MatrixProduct(const MatrixProductShape& shape, int threads);
  ~MatrixProduct();
  MatrixProduct(MatrixProduct&&) noexcept;
  MatrixProduct& operator=(MatrixProduct&&) noexcept;

  /// Scratch that run() needs: what oneDNN has no fast product for on this processor (f16, and bf16 on many) is widened
  /// to f32 first.
  std::int64_t workspace_bytes() const;

  /// `bias` is read only if the shape has one.
  void run(const void* a, const void* b, const void* bias, void* c, void* workspace = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::cpu
