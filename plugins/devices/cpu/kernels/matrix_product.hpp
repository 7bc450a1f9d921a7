#pragma once

#include <cstdint>
#include <memory>

namespace strata::cpu {

enum class MatrixElement { f32, bf16 };

/// c[rows, columns] = a[rows, depth] * b[depth, columns] + bias[columns], row-major; c and bias are always f32.
struct MatrixProductShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_a = false;  ///< a is stored as [depth, rows]
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  bool accumulate = false;   ///< add to what c holds
  bool bias = false;
  MatrixElement element = MatrixElement::f32;  ///< of a and b; products of bf16 are added up in f32
  /// Distance between stored rows, in elements; 0: without gaps.
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
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

  /// Scratch that run() needs: bf16 on a processor for which oneDNN has no fast bf16 product is widened first.
  std::int64_t workspace_bytes() const;

  /// `a` and `b` point to f32, or to the bits of bf16. `bias` is read only if the shape has one.
  void run(const void* a, const void* b, const float* bias, float* c, void* workspace = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::cpu
