#pragma once

#include "kernels/matrix_tile.cuh"

/// \file
/// Convolutions of channels-last images as products of tiles. `Tile` is a MatrixTile. Operands of tiles are windows of
/// the images, and their weights (implicit im2col): a stage is copied from the pixels that its windows read. Channels
/// are multiples of 8, so that a chunk has one tap.

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

/// result[image, row, pixel] = Σ over the elements of a window of weights[row, element] · the element, or grows by it.
/// The result has `rows` channels, which come before the pixels. Grid: tiles of the windows of all images, each with
/// all tiles of rows, which read the same pixels.
template <class T, class Tile, class R>
__global__ void __launch_bounds__(Tile::kThreads)
    multiply_windows(Windows windows, int window_count, int rows, const T* images, const T* weights, R* result,
                     bool in_runs, bool accumulate) {
  using Weights = WindowWeights<T, Tile::kRows, Tile::kDepth, Tile::kThreads>;
  using Pixels = WindowOperand<T, Tile::kSide, Tile::kDepth, Tile::kThreads>;
  using Runs = TileRuns<Tile>;
  const int row_tiles = (rows + Tile::kRows - 1) / Tile::kRows;
  const int window_tile = static_cast<int>(blockIdx.x) / row_tiles;
  const int first_row = (static_cast<int>(blockIdx.x) - window_tile * row_tiles) * Tile::kRows;
  const int first = window_tile * Tile::kSide;
  const int rows_here = min(rows - first_row, Tile::kRows);
  const int windows_here = min(window_count - first, Tile::kSide);
  const float* sums =
      Tile::multiply(Weights(windows, weights + std::int64_t{first_row} * windows.weight_elements(), rows_here),
                     Pixels(windows, images, first, window_count), windows.elements(), rows_here, windows_here);
  const int pixels = windows.result_pixels();
  const auto start_of = [&](int column) {
    const WindowPosition position(windows, first + column);
    return result + (std::int64_t{position.image} * rows + first_row) * pixels +
           windows.rows.result(position.row) * windows.columns.result_size + windows.columns.result(position.column);
  };
  if (in_runs) {
    constexpr int kRun = Runs::kRun;
    const int column = Runs::column();
    if (column >= windows_here) return;
    R* start = start_of(column);
    for (int row = Runs::row(0); row < rows_here; row += Runs::kRowStep) {
      float values[kRun];
      float before[kRun] = {};
      load_run(sums + row * Tile::kStride + column, values);
      if (accumulate) load_run(start + std::int64_t{row} * pixels, before);
#pragma unroll
      for (int i = 0; i < kRun; ++i) values[i] += before[i];
      store_run(start + std::int64_t{row} * pixels, values);
    }
    return;
  }
  static_assert(Tile::kThreads == Tile::kSide);
  const int column = static_cast<int>(threadIdx.x);
  if (column >= windows_here) return;
  R* start = start_of(column);
#pragma unroll 4
  for (int row = 0; row < rows_here; ++row) {
    R& element = start[std::int64_t{row} * pixels];
    const float value = sums[row * Tile::kStride + column];
    element = narrow<R>(accumulate ? widen(element) + value : value);
  }
}

/// parts[part, row, element] = Σ over the windows of a part of dy[window, row] · the window's element. Each part has
/// `windows_of_part` windows. Grid: tiles of elements, tiles of rows, parts.
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    sum_window_products(Windows windows, int window_count, int windows_of_part, int rows, const T* images, const T* dy,
                        float* parts) {
  using Elements = WindowTerms<T, Tile::kSide, Tile::kDepth, Tile::kThreads>;
  using Rows = typename Tile::template LeftLines<Line::term>;
  using Runs = TileRuns<Tile>;
  const int first_element = static_cast<int>(blockIdx.x) * Tile::kSide;
  const int first_row = static_cast<int>(blockIdx.y) * Tile::kRows;
  const int first = static_cast<int>(blockIdx.z) * windows_of_part;
  const int count = min(window_count - first, windows_of_part);
  const int elements = windows.elements();
  const int rows_here = min(rows - first_row, Tile::kRows);
  const Lines<T> gradients{dy + std::int64_t{first} * rows + first_row, rows, count, rows_here};
  const float* sums = Tile::multiply(Rows(gradients), Elements(windows, images, first, first + count, first_element),
                                     count, rows_here, min(elements - first_element, Tile::kSide));
  const int column = Runs::column();
  if (column >= elements - first_element) return;
  float* part = parts + std::int64_t{blockIdx.z} * rows * elements;
  for (int row = Runs::row(0); row < rows_here; row += Runs::kRowStep) {
    float values[Runs::kRun];
    load_run(sums + row * Tile::kStride + column, values);
    store_run(part + std::int64_t{first_row + row} * elements + first_element + column, values);
  }
}

}  // namespace strata::cuda
