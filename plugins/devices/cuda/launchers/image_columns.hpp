#pragma once

#include <cstdint>

#include "language/element.hpp"
#include "strata/dtype.hpp"

/// \file
/// Convolutions as matrix products (im2col): each pixel that a window makes is a column of the elements that the window
/// reads.

namespace strata::cuda {

/// The windows that slide over one image [channels, height, width] and make [out_height, out_width].
struct ImageWindows {
  int channels = 1;
  int height = 1;
  int width = 1;
  int window_height = 1;
  int window_width = 1;
  int out_height = 1;
  int out_width = 1;
  int stride = 1;
  int padding = 0;  ///< zeros around the image

  /// Number of windows.
  [[nodiscard]] std::int64_t pixels() const { return std::int64_t{out_height} * out_width; }
  /// Number of elements that a window reads.
  [[nodiscard]] std::int64_t window_elements() const { return std::int64_t{channels} * window_height * window_width; }
  /// True if the matrix of an image's columns is the image.
  [[nodiscard]] bool are_pixels() const {
    return window_height == 1 && window_width == 1 && stride == 1 && padding == 0;
  }
};

/// Places of the columns of several images, in elements. Row r of an image is at image · image_stride + r · row_stride,
/// contiguous, with an element for each window.
struct ColumnPlaces {
  std::int64_t image_stride = 0;
  std::int64_t row_stride = 0;
};

/// Packs images, which have at most 2^30 windows in total, into columns of the same type.
void launch_pack_columns(Stream stream, DType dtype, const ImageWindows& windows, std::int64_t images,
                         const ColumnPlaces& places, const void* x, void* columns);

/// Each pixel of x becomes, or with `accumulate` grows by, the sum of its elements in the columns, in a fixed order.
/// The columns are f32 or f64.
void launch_sum_columns(Stream stream, DType columns_type, DType x_type, const ImageWindows& windows,
                        std::int64_t images, const ColumnPlaces& places, const void* columns, void* x, bool accumulate);

}  // namespace strata::cuda
