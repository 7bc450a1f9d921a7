#pragma once

#include "kernels/window_operands.cuh"

/// \file
/// Convolutions of channels-last images as products of tiles. `Tile` is a MatrixTile.

namespace strata::cuda {

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
