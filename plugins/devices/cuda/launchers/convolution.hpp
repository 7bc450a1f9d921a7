#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "launchers/image_columns.hpp"

/// \file
/// What both ways to compute a convolution and its gradients share.

namespace strata::cuda {

using devices::Pass;

inline std::int64_t bytes_of(DType dtype, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(size_of(dtype));
}

/// A convolution of x and w to y.
struct Convolution {
  Convolution(const OpInstance& op, const OperandDescription& x, const OperandDescription& w,
              const OperandDescription& y)
      : batch(x.shape[0]),
        out_channels(w.shape[0]),
        type(op.operands[0].dtype),
        sum(type == DType::f64 ? DType::f64 : DType::f32) {
    const auto size = [](std::int64_t value) { return static_cast<int>(value); };
    windows = {.channels = size(x.shape[1]),
               .height = size(x.shape[2]),
               .width = size(x.shape[3]),
               .window_height = size(w.shape[2]),
               .window_width = size(w.shape[3]),
               .out_height = size(y.shape[2]),
               .out_width = size(y.shape[3]),
               .stride = size(op.attributes.integer("stride")),
               .padding = size(op.attributes.integer("padding"))};
  }

  [[nodiscard]] std::int64_t pixels() const { return windows.pixels(); }
  [[nodiscard]] std::int64_t depth() const { return windows.window_elements(); }
  [[nodiscard]] std::int64_t x_elements() const {
    return std::int64_t{windows.channels} * windows.height * windows.width;
  }
  [[nodiscard]] std::int64_t y_elements() const { return out_channels * pixels(); }

  ImageWindows windows;
  std::int64_t batch;
  std::int64_t out_channels;
  DType type;
  DType sum;
};

/// The convolution of an op.
inline Convolution convolution_of(const OpInstance& op, Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {op, op.operands[0], op.operands[1], op.results[0]};
    case Pass::input_gradient:
      return {op, op.results[0], op.operands[1], op.operands[0]};
    default:
      return {op, op.operands[0], op.results[0], op.operands[1]};
  }
}

/// A batch in chunks of equal size, of which the last one may be smaller. `Work` is what is prepared for a chunk.
template <class Work>
class ImageChunks {
 public:
  /// `image_bytes`: workspace of one image. `limit`: that of a chunk, unless one image needs more.
  ImageChunks(std::int64_t batch, std::int64_t image_bytes, std::int64_t limit) : batch_(batch) {
    const std::int64_t most = image_bytes == 0 ? batch_ : std::max<std::int64_t>(limit / image_bytes, 1);
    const std::int64_t unit = most < kAlignedImages ? 1 : kAlignedImages;
    const std::int64_t count = blocks(batch_, most / unit * unit);
    images_ = std::min(batch_, blocks(blocks(batch_, count), unit) * unit);
  }

  /// Prepares the chunks by make(images).
  template <class Make>
  void prepare(const Make& make) {
    works_ = {make(images_)};
    if (batch_ % images_ != 0) works_.push_back(make(batch_ % images_));
  }
  /// Calls function(work, first image) for all chunks.
  template <class Function>
  void for_each(const Function& function) const {
    for (std::int64_t first = 0; first < batch_; first += images_) {
      function(batch_ - first >= images_ ? works_.front() : works_.back(), first);
    }
  }

  [[nodiscard]] std::int64_t images() const { return images_; }
  [[nodiscard]] const std::vector<Work>& works() const { return works_; }

 private:
  /// Chunks of a multiple of as many images start at aligned addresses.
  static constexpr std::int64_t kAlignedImages = 8;

  static std::int64_t blocks(std::int64_t count, std::int64_t each) { return (count + each - 1) / each; }

  std::int64_t batch_;
  std::int64_t images_ = 1;
  std::vector<Work> works_;
};

/// Prepares a convolution, or a gradient of it, as products of cuBLASLt with the columns of its windows, which are
/// written to memory.
PreparedKernel prepare_column_convolution(const OpInstance& op, Pass pass, const CudaEnvironment& environment);

/// Prepares one by tiles that read the windows from channels-last copies of the images.
PreparedKernel prepare_window_convolution(const OpInstance& op, Pass pass, const CudaEnvironment& environment);

/// True if prepare_window_convolution() can compute it: in 16 bits, to results of the same type or f32, where the
/// channels that are summed up are multiples of 8.
bool takes_window_convolution(const OpInstance& op, Pass pass);

}  // namespace strata::cuda
