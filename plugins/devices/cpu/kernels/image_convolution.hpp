#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Sizes of y[batch, out_channels, out_height, out_width] = convolution of x[batch, channels, height, width] with
/// w[out_channels, channels, rows, columns]. All are row-major.
struct ConvolutionShape {
  enum class Result { y, dx, dw };
  /// The operands: x and w for y, dy and w for dx, x and dy for dw.
  Result result = Result::y;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out_channels = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool accumulate = false;
  /// f32 or bf16.
  Element operand = Element::f32;
  /// f32, or the type of the operands.
  Element result_element = Element::f32;
};

/// A convolution or one of its gradients by oneDNN, prepared once and run often. Results are equal in all runs with the
/// same number of threads. Only one thread at a time may run an object.
class ImageConvolution {
 public:
  /// Throws std::runtime_error if oneDNN does not support the shape.
  ImageConvolution(const ConvolutionShape& shape, int threads);
  ~ImageConvolution();

  /// True if oneDNN computes with instructions for the operands' type. If not, its bf16 convolutions are slower than
  /// those of copies in f32.
  [[nodiscard]] bool is_native() const;
  /// Bytes of scratch memory for run(): oneDNN computes with blocks of channels, so tensors are copied to that order.
  std::int64_t workspace_bytes() const;
  void run(const void* first, const void* second, void* result, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::cpu
