#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "language/element.hpp"
#include "strata/dtype.hpp"

namespace strata::cuda {

/// Placement of the matrices of a batch. Each is column-major as in BLAS: element (i, j) is at i + j · leading.
struct MatrixPlacement {
  std::int64_t leading = 1;
  std::int64_t batch_stride = 0;

  auto operator<=>(const MatrixPlacement&) const = default;
};

/// Applied to the sums before they are stored. u is a sum, plus its bias if there is one. GELU is the tanh form.
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
  bool transpose_a = false;  ///< a is stored as [depth, rows]
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  MatrixPlacement a;
  MatrixPlacement b;
  MatrixPlacement d;
  DType operand = DType::f32;
  DType result = DType::f32;  ///< the type of the operands, or f32 for 16-bit operands
  bool accumulate = false;    ///< d += …
  MatrixEpilogue epilogue = MatrixEpilogue::none;

  auto operator<=>(const MatrixProductShape&) const = default;
};

/// Describes a shape in row-major terms: "2 products of [64, 32] and [32, 16] in bf16 with results in f32".
std::string to_string(const MatrixProductShape& shape);

/// True if the library may be asked for GELU in such a product. False for f32, because cuBLASLt does not document the
/// accuracy of its tanh. The leading size of aux, which equals that of d, must be a multiple of 8.
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

/// A product of one shape with a chosen algorithm. Equal arguments give equal bits.
class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  /// True if the arrays at these addresses can be multiplied. Always true without an epilogue.
  [[nodiscard]] virtual bool takes(const MatrixProductArguments& arguments) const = 0;
  /// Enqueues the product. Not thread-safe. \throws RuntimeError
  virtual void run(const MatrixProductArguments& arguments, Stream stream) = 0;
};

/// The matrix products of one device. Not thread-safe.
class MatrixLibrary {
 public:
  virtual ~MatrixLibrary() = default;
  /// Chooses the algorithms for all products of a shape, once. Null if there is none with the shape's epilogue.
  /// \throws ConfigurationError if there is none and the shape has no epilogue. \throws RuntimeError if the library
  /// fails.
  [[nodiscard]] virtual std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) = 0;
};

/// Makes the library of the current device. `major`: its compute capability. \throws RuntimeError if the library fails.
std::unique_ptr<MatrixLibrary> make_matrix_library(int major);

}  // namespace strata::cuda
