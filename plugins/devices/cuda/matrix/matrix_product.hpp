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

/// What becomes of the sums before they are stored. u is a sum, with its bias where there is one; GELU is the tanh
/// form.
enum class MatrixEpilogue : std::uint8_t {
  none,
  bias,           ///< d = u: adds an element of the result's type to each row
  gelu_bias,      ///< d = gelu(u)
  gelu_aux_bias,  ///< d = gelu(u), aux = u
  dgelu           ///< d = u · gelu'(aux)
};

constexpr bool has_bias(MatrixEpilogue epilogue) {
  return epilogue == MatrixEpilogue::bias || epilogue == MatrixEpilogue::gelu_bias ||
         epilogue == MatrixEpilogue::gelu_aux_bias;
}
constexpr bool has_gelu(MatrixEpilogue epilogue) {
  return epilogue != MatrixEpilogue::none && epilogue != MatrixEpilogue::bias;
}
constexpr bool has_aux(MatrixEpilogue epilogue) {
  return epilogue == MatrixEpilogue::gelu_aux_bias || epilogue == MatrixEpilogue::dgelu;
}

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
  MatrixEpilogue epilogue = MatrixEpilogue::none;

  auto operator<=>(const MatrixProductShape&) const = default;
};

/// Whether the library may be asked for GELU behind such a product. Not in f32: cuBLASLt doesn't say how accurate its
/// tanh is. The leading size of aux, which lies as d does, must be a multiple of 8.
constexpr bool may_have_gelu(const MatrixProductShape& shape) {
  const bool is_short = shape.operand == DType::bf16 || shape.operand == DType::f16;
  return is_short && shape.result == shape.operand && shape.batch == 1 && !shape.accumulate && shape.d.leading % 8 == 0;
}

/// The arrays of one product, in device memory.
struct MatrixProductArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  void* aux = nullptr;
};

/// A product of one shape with the algorithm for it chosen. The same arguments give the same bits every time.
class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  /// Whether arrays at these addresses can be multiplied. True without an epilogue; with one where addresses are
  /// multiples of 16.
  [[nodiscard]] virtual bool takes(const MatrixProductArguments& arguments) const = 0;
  /// Enqueues the product. Not thread-safe. \throws RuntimeError
  virtual void run(const MatrixProductArguments& arguments, Stream stream) = 0;
};

/// What multiplies on one device. Not thread-safe.
class MatrixLibrary {
 public:
  virtual ~MatrixLibrary() = default;
  /// Chooses the algorithm once for all products of a shape. Null where there is none, as can be for an epilogue, or no
  /// fast one. \throws RuntimeError
  [[nodiscard]] virtual std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) = 0;
};

/// For the calling thread's device, of this major compute capability. \throws RuntimeError
std::unique_ptr<MatrixLibrary> make_matrix_library(int major);

}  // namespace strata::cuda
