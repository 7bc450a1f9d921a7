#include <algorithm>
#include <cstring>
#include <string>

#include "device/prepared_op.hpp"
#include "emulator/execution.hpp"
#include "kernels/activation.cuh"
#include "language/conversion.hpp"
#include "language/packed.hpp"
#include "matrix/matrix_product.hpp"

/// \file
/// Products by plain loops, as strict with shapes as cuBLASLt.

namespace strata::cuda {
namespace {

/// Scribbled over in every product, so that nobody keeps anything there.
constexpr std::int64_t kWorkspaceBytes = 192;
constexpr int kScribble = 0xFF;

void require(bool condition, const std::string& what) {
  if (!condition) throw RuntimeError("emulated matrix product: " + what);
}

class EmulatedProduct final : public MatrixProduct {
 public:
  explicit EmulatedProduct(const MatrixProductShape& shape) : shape_(shape) {
    const bool is_short = shape.operand == DType::bf16 || shape.operand == DType::f16;
    require(shape.result == shape.operand || (is_short && shape.result == DType::f32), "result of another type");
    require(std::min({shape.batch, shape.rows, shape.columns, shape.depth}) > 0, "an empty matrix");
    require(shape.a.leading >= (shape.transpose_a ? shape.depth : shape.rows), "columns of a overlap");
    require(shape.b.leading >= (shape.transpose_b ? shape.columns : shape.depth), "columns of b overlap");
    require(shape.d.leading >= shape.rows, "columns of d overlap");
    require(shape.batch == 1 || shape.d.batch_stride > 0, "matrices of d overlap");
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return kWorkspaceBytes; }

  [[nodiscard]] bool takes(const MatrixProductArguments& arguments) const override {
    if (has_bias(shape_.epilogue) && !is_aligned(arguments.bias)) return false;
    return !has_gelu(shape_.epilogue) ||
           (is_aligned(arguments.a) && is_aligned(arguments.b) && is_aligned(arguments.d) && is_aligned(arguments.aux));
  }

  void run(const MatrixProductArguments& arguments, Stream stream) override {
    require(takes(arguments), "arrays at addresses that it doesn't take");
    require(is_aligned(arguments.workspace), "workspace at an address that is not aligned");
    emulator::enqueue(static_cast<emulator::EmulatedStream*>(stream),
                      [product = *this, arguments] { product.multiply(arguments); });
  }

 private:
  void multiply(const MatrixProductArguments& arguments) const {
    std::memset(arguments.workspace, kScribble, kWorkspaceBytes);
    with_element(shape_.operand, [&]<class T>() {
      if (shape_.result == shape_.operand) {
        multiply_as<T, T>(arguments);
      } else {
        multiply_as<T, float>(arguments);
      }
    });
  }

  template <class T, class Y>
  void multiply_as(const MatrixProductArguments& arguments) const {
    const auto* bias = static_cast<const Y*>(arguments.bias);
    auto* aux = static_cast<Y*>(arguments.aux);
    for (std::int64_t i = 0; i < shape_.batch; ++i) {
      const T* a = static_cast<const T*>(arguments.a) + i * shape_.a.batch_stride;
      const T* b = static_cast<const T*>(arguments.b) + i * shape_.b.batch_stride;
      Y* d = static_cast<Y*>(arguments.d) + i * shape_.d.batch_stride;
      for (std::int64_t column = 0; column < shape_.columns; ++column) {
        for (std::int64_t row = 0; row < shape_.rows; ++row) {
          Y& to = d[row + column * shape_.d.leading];
          Accumulate<T> sum = dot(a, b, row, column);
          if (shape_.accumulate) sum += widen(to);
          if (has_bias(shape_.epilogue)) sum += widen(bias[row]);
          to = finished<Y>(sum, aux, row + column * shape_.d.leading);
        }
      }
    }
  }

  /// What the epilogue makes of one sum.
  template <class Y, class Sum>
  Y finished(Sum sum, Y* aux, std::int64_t at) const {
    switch (shape_.epilogue) {
      case MatrixEpilogue::gelu_aux_bias:
        aux[at] = narrow<Y>(sum);
        [[fallthrough]];
      case MatrixEpilogue::gelu_bias:
        return narrow<Y>(GeluTanh::value(sum));
      case MatrixEpilogue::dgelu:
        return narrow<Y>(sum * GeluTanh::derivative(static_cast<Sum>(widen(aux[at]))));
      default:
        return narrow<Y>(sum);
    }
  }

  template <class T>
  Accumulate<T> dot(const T* a, const T* b, std::int64_t row, std::int64_t column) const {
    const T* left = a + row * (shape_.transpose_a ? shape_.a.leading : 1);
    const T* right = b + column * (shape_.transpose_b ? 1 : shape_.b.leading);
    const std::int64_t left_step = shape_.transpose_a ? 1 : shape_.a.leading;
    const std::int64_t right_step = shape_.transpose_b ? shape_.b.leading : 1;
    Accumulate<T> sum = 0;
    for (std::int64_t k = 0; k < shape_.depth; ++k) sum += widen(left[k * left_step]) * widen(right[k * right_step]);
    return sum;
  }

  MatrixProductShape shape_;
};

class EmulatedLibrary final : public MatrixLibrary {
 public:
  std::shared_ptr<MatrixProduct> product(const MatrixProductShape& shape) override {
    if (has_gelu(shape.epilogue) && !may_have_gelu(shape)) return nullptr;
    return std::make_shared<EmulatedProduct>(shape);
  }
};

}  // namespace

std::unique_ptr<MatrixLibrary> make_matrix_library(int /*major*/) { return std::make_unique<EmulatedLibrary>(); }

}  // namespace strata::cuda
