#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "language/stream.hpp"
#include "strata/dtype.hpp"

namespace strata::cuda {

/// Where the matrices of a batch lie, each column-major as in BLAS: element (i, j) at i + j · leading.
struct MatrixPlacement {
  std::int64_t leading = 1;
  std::int64_t batch_stride = 0;

  auto operator<=>(const MatrixPlacement&) const = default;
};

/// d[rows, columns] = op(a) · op(b), summed in f32 (f64: in f64) and rounded once.
struct MatrixProductShape {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  bool transpose_a = false;  ///< a lies as [depth, rows]
  bool transpose_b = false;  ///< b lies as [columns, depth]
  MatrixPlacement a;
  MatrixPlacement b;
  MatrixPlacement d;
  DType operand = DType::f32;
  DType result = DType::f32;  ///< that of the operands, or f32 for shorter ones
  bool accumulate = false;    ///< d += …
  bool bias = false;          ///< adds an element of the result's type to each row

  auto operator<=>(const MatrixProductShape&) const = default;
};

/// The arrays of one product, in device memory.
struct MatrixProductArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
};

/// A product of one shape with the algorithm for it chosen. The same arguments give the same bits every time.
class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  /// Whether arrays at these addresses can be multiplied. True without a bias; with one where addresses are multiples
  /// of 16.
  [[nodiscard]] virtual bool takes(const MatrixProductArguments& arguments) const = 0;
  /// Enqueues the product. Not thread-safe. \throws RuntimeError
  virtual void run(const MatrixProductArguments& arguments, Stream stream) = 0;
};

/// What multiplies on one device. Not thread-safe.
class MatrixLibrary {
 public:
  virtual ~MatrixLibrary() = default;
  /// Chooses the algorithm once for all products of a shape. Null where there is none, as can be for a bias.
  /// \throws RuntimeError
  [[nodiscard]] virtual std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) = 0;
};

/// For the calling thread's device. \throws RuntimeError
std::unique_ptr<MatrixLibrary> make_matrix_library();

}  // namespace strata::cuda
