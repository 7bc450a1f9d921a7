#pragma once

#include <cstdint>

#include "language/dialect.hpp"

namespace strata::cuda {

/// The windows of a convolution along the rows, or the columns, of an image. A window reads the pixels
/// position · step + first + tap · tap_step, of which those outside of the image are zeros, for each tap. The gradient
/// of an input of stride s is s such axes: every s-th position has the same taps.
struct WindowAxis {
  int positions = 1;  ///< windows
  int size = 1;       ///< pixels that are read
  int step = 1;
  int first = 0;
  int taps = 1;
  int tap_step = 1;
  /// Tap t is multiplied with the weight first_weight + t · weight_step of `weights`.
  int weights = 1;
  int first_weight = 0;
  int weight_step = 1;
  /// Window p makes the pixel first_result + p · result_step of result_size.
  int result_size = 1;
  int first_result = 0;
  int result_step = 1;

  [[nodiscard]] __host__ __device__ int weight(int tap) const { return first_weight + tap * weight_step; }
  [[nodiscard]] __host__ __device__ int result(int position) const { return first_result + position * result_step; }
};

/// Windows over channels-last images. Their weights have the channels last, too.
struct Windows {
  WindowAxis rows;
  WindowAxis columns;
  int channels = 1;

  /// Windows of an image.
  [[nodiscard]] __host__ __device__ int positions() const { return rows.positions * columns.positions; }
  /// Pixels that are read of an image.
  [[nodiscard]] __host__ __device__ int pixels() const { return rows.size * columns.size; }
  [[nodiscard]] __host__ __device__ int result_pixels() const { return rows.result_size * columns.result_size; }
  /// Elements that a window reads.
  [[nodiscard]] __host__ __device__ int elements() const { return rows.taps * columns.taps * channels; }
  /// Elements of the weights of one result.
  [[nodiscard]] __host__ __device__ int weight_elements() const { return rows.weights * columns.weights * channels; }
};

}  // namespace strata::cuda
