#pragma once

#include "kernels/matrix_tile.cuh"
#include "launchers/windows.hpp"

/// \file
/// Operands of tiles that are windows of channels-last images, and their weights (implicit im2col): a stage is copied
/// from the pixels that its windows read. Channels are multiples of 8, so that a chunk has one tap.

namespace strata::cuda {

/// The tap and the channel at which a thread's chunk begins. Terms are ordered by tap, then channel.
struct WindowTerm {
  int row_tap = 0;
  int column_tap = 0;
  int channel = 0;

  __device__ __forceinline__ void advance(const Windows& windows, int terms) {
    channel += terms;
    while (channel >= windows.channels) {
      channel -= windows.channels;
      if (++column_tap < windows.columns.taps) continue;
      column_tap = 0;
      ++row_tap;
    }
  }
  [[nodiscard]] __device__ __forceinline__ bool exists(const Windows& windows) const {
    return row_tap < windows.rows.taps;
  }
};

/// A place among the windows of many images.
struct WindowPosition {
  int image = 0;
  int row = 0;
  int column = 0;

  __device__ __forceinline__ WindowPosition(const Windows& windows, int position)
      : image(position / windows.positions()) {
    const int of_image = position - image * windows.positions();
    row = of_image / windows.columns.positions;
    column = of_image - row * windows.columns.positions;
  }
  /// Moves on. `step` was made from a number of windows.
  __device__ __forceinline__ void advance(const Windows& windows, const WindowPosition& step) {
    image += step.image;
    row += step.row;
    column += step.column;
    if (column >= windows.columns.positions) {
      column -= windows.columns.positions;
      ++row;
    }
    if (row < windows.rows.positions) return;
    row -= windows.rows.positions;
    ++image;
  }
};

/// The row of a chunk that no window reads.
inline constexpr int kNoPixel = -(1 << 30);

/// A negative number is beyond every size as an unsigned one.
__device__ __forceinline__ bool has_pixel(const Windows& windows, int row, int column) {
  return static_cast<unsigned>(row) < static_cast<unsigned>(windows.rows.size) &&
         static_cast<unsigned>(column) < static_cast<unsigned>(windows.columns.size);
}

/// The channels of a pixel of the image that starts at pixel `start`.
template <class T>
__device__ __forceinline__ const T* pixel_at(const Windows& windows, const T* images, int start, int row, int column) {
  return images + std::int64_t{start + row * windows.columns.size + column} * windows.channels;
}

/// The columns of a product are windows from `first` on.
template <class T, int kSide, int kDepth, int kThreads>
class WindowOperand : public Stages<T, Line::result, kSide, kDepth, kThreads> {
  using Base = Stages<T, Line::result, kSide, kDepth, kThreads>;

 public:
  __device__ __forceinline__ WindowOperand(const Windows& windows, const T* images, int first, int end)
      : windows_(windows), images_(images) {
    term_.advance(windows_, Base::chunk() * Base::kChunk);
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) {
      const WindowPosition position(windows, first + Base::line(i));
      starts_[i] = position.image * windows.pixels();
      rows_[i] = first + Base::line(i) < end ? position.row * windows.rows.step + windows.rows.first : kNoPixel;
      columns_[i] = position.column * windows.columns.step + windows.columns.first;
    }
  }

  /// Starts to copy the next stage. Terms that do not exist are zero.
  __device__ __forceinline__ void load(T* stage) {
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) {
      const int row = rows_[i] + term_.row_tap * windows_.rows.tap_step;
      const int column = columns_[i] + term_.column_tap * windows_.columns.tap_step;
      const bool exists = term_.exists(windows_) && has_pixel(windows_, row, column);
      copy_async(stage + Base::place(Base::line(i), Base::chunk()),
                 exists ? pixel_at(windows_, images_, starts_[i], row, column) + term_.channel : images_, exists);
    }
    term_.advance(windows_, kDepth);
  }

 private:
  const Windows& windows_;
  const T* images_;
  WindowTerm term_;
  int starts_[Base::kCopies];
  int rows_[Base::kCopies];
  int columns_[Base::kCopies];
};

/// The rows of a product are weights[row, tap, channel] of windows.
template <class T, int kSide, int kDepth, int kThreads>
class WindowWeights : public Stages<T, Line::result, kSide, kDepth, kThreads> {
  using Base = Stages<T, Line::result, kSide, kDepth, kThreads>;

 public:
  __device__ __forceinline__ WindowWeights(const Windows& windows, const T* weights, int rows)
      : windows_(windows), weights_(weights), rows_(rows) {
    term_.advance(windows_, Base::chunk() * Base::kChunk);
  }

  __device__ __forceinline__ void load(T* stage) {
    const int tap =
        windows_.rows.weight(term_.row_tap) * windows_.columns.weights + windows_.columns.weight(term_.column_tap);
    const T* of_term = weights_ + std::int64_t{tap} * windows_.channels + term_.channel;
    const bool exists = term_.exists(windows_);
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) {
      const bool has_row = exists && Base::line(i) < rows_;
      copy_async(stage + Base::place(Base::line(i), Base::chunk()),
                 has_row ? of_term + std::int64_t{Base::line(i)} * windows_.weight_elements() : weights_, has_row);
    }
    term_.advance(windows_, kDepth);
  }

 private:
  const Windows& windows_;
  const T* weights_;
  int rows_;
  WindowTerm term_;
};

/// The terms of a product are windows [first, end), and its columns are the elements of windows from first_element on.
template <class T, int kSide, int kDepth, int kThreads>
class WindowTerms : public Stages<T, Line::term, kSide, kDepth, kThreads> {
  using Base = Stages<T, Line::term, kSide, kDepth, kThreads>;

 public:
  __device__ __forceinline__ WindowTerms(const Windows& windows, const T* images, int first, int end, int first_element)
      : windows_(windows),
        images_(images),
        line_step_(windows, Base::kLineStep),
        position_(windows, first + Base::line(0)),
        left_(end - first - Base::line(0)) {
    WindowTerm term;
    term.advance(windows, first_element + Base::chunk() * Base::kChunk);
    row_ = term.exists(windows) ? windows.rows.first + term.row_tap * windows.rows.tap_step : kNoPixel;
    column_ = windows.columns.first + term.column_tap * windows.columns.tap_step;
    channel_ = term.channel;
  }

  __device__ __forceinline__ void load(T* stage) {
#pragma unroll
    for (int i = 0; i < Base::kCopies; ++i) {
      const int row = row_ + position_.row * windows_.rows.step;
      const int column = column_ + position_.column * windows_.columns.step;
      const bool exists = left_ > 0 && has_pixel(windows_, row, column);
      copy_async(
          stage + Base::place(Base::line(i), Base::chunk()),
          exists ? pixel_at(windows_, images_, position_.image * windows_.pixels(), row, column) + channel_ : images_,
          exists);
      position_.advance(windows_, line_step_);
      left_ -= Base::kLineStep;
    }
  }

 private:
  const Windows& windows_;
  const T* images_;
  WindowPosition line_step_;
  WindowPosition position_;  // of the next line
  int left_;                 // terms from the next line on
  int row_;                  // where the first window of an image reads the chunk
  int column_;
  int channel_;
};

}  // namespace strata::cuda
