#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"
#include "launchers/image_columns.hpp"

namespace strata::cuda {

inline constexpr int kColumnThreads = 256;

/// Each thread has a run of windows, which may span images. The blocks with the same blockIdx.y take the same rows of
/// windows of the same channels, so that the place of a window is computed once for all elements of such a row.
template <class T, int kRun>
__global__ void __launch_bounds__(kColumnThreads)
    pack_columns(ImageWindows windows, int count, ColumnPlaces places, const T* x, T* columns) {
  const int first = (static_cast<int>(blockIdx.x) * kColumnThreads + static_cast<int>(threadIdx.x)) * kRun;
  if (first >= count) return;
  const int pixels = windows.out_height * windows.out_width;
  const int first_image = first / pixels;
  const int first_pixel = first % pixels;
  const int lines = windows.channels * windows.window_height;
  for (int line = static_cast<int>(blockIdx.y); line < lines; line += static_cast<int>(gridDim.y)) {
    const int channel = line / windows.window_height;
    const int window_row = line % windows.window_height;
    int left[kRun];
    std::int64_t from[kRun];
    int row = first_pixel / windows.out_width;
    int column = first_pixel % windows.out_width;
    std::int64_t plane = std::int64_t{first_image} * windows.channels + channel;
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const int y = row * windows.stride + window_row - windows.padding;
      const bool inside = y >= 0 && y < windows.height;
      left[i] = inside ? column * windows.stride - windows.padding : windows.width;
      from[i] = (plane * windows.height + y) * windows.width + left[i];
      if (++column < windows.out_width) continue;
      column = 0;
      if (++row < windows.out_height) continue;
      row = 0;
      plane += windows.channels;
    }
    T* to = columns + first_image * places.image_stride + first_pixel +
            std::int64_t{line} * windows.window_width * places.row_stride;
    for (int k = 0; k < windows.window_width; ++k, to += places.row_stride) {
      T values[kRun];
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        // A negative number is beyond every width as an unsigned one.
        const bool inside = static_cast<unsigned>(left[i] + k) < static_cast<unsigned>(windows.width);
        values[i] = inside ? x[from[i] + k] : T{};
      }
      store_run<kRun>(to, values);
    }
  }
}

/// The threads with the same threadIdx.y, in all blocks with the same blockIdx.x, have one channel of an image.
template <class V, class T>
__global__ void __launch_bounds__(kColumnThreads)
    sum_columns(ImageWindows windows, std::int64_t planes, ColumnPlaces places, const V* columns, T* x,
                bool accumulate) {
  const std::int64_t plane = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (plane >= planes) return;
  const std::int64_t channel = plane % windows.channels;
  const V* of_channel = columns + plane / windows.channels * places.image_stride +
                        channel * windows.window_height * windows.window_width * places.row_stride;
  const int pixels = windows.height * windows.width;
  T* to = x + plane * pixels;
  for (int pixel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x); pixel < pixels;
       pixel += static_cast<int>(gridDim.y * blockDim.x)) {
    // The last window that reads the pixel, by its row and column. Its neighbours read an element further in.
    const int y = pixel / windows.width + windows.padding;
    const int x_in_padding = pixel % windows.width + windows.padding;
    const int last_row = y / windows.stride;
    const int last_column = x_in_padding / windows.stride;
    V sum = accumulate ? to_computed<V>(to[pixel]) : V{0};
    for (int m = y % windows.stride, row = last_row; m < windows.window_height && row >= 0;
         m += windows.stride, --row) {
      if (row >= windows.out_height) continue;
      for (int n = x_in_padding % windows.stride, column = last_column; n < windows.window_width && column >= 0;
           n += windows.stride, --column) {
        if (column >= windows.out_width) continue;
        sum += of_channel[(m * windows.window_width + n) * places.row_stride + row * windows.out_width + column];
      }
    }
    to[pixel] = to_element<T>(sum);
  }
}

namespace {

constexpr unsigned kLargestGridY = 65535;

/// Threads for every pixel of every plane, several planes in a block if they are small.
Geometry plane_geometry(std::int64_t planes, std::int64_t pixels) {
  unsigned lanes = 1;
  while (lanes < kColumnThreads && lanes < pixels) lanes *= 2;
  const unsigned pieces = std::min(blocks_for(pixels, lanes), kLargestGridY);
  return {.grid = {blocks_for(planes, kColumnThreads / lanes), pieces}, .block = {lanes, kColumnThreads / lanes}};
}

}  // namespace

void launch_pack_columns(Stream stream, DType dtype, const ImageWindows& windows, std::int64_t images,
                         const ColumnPlaces& places, const void* x, void* columns) {
  const std::int64_t count = images * windows.pixels();
  with_element(dtype, [&]<class T>() {
    constexpr int kRun = kPackedElements<T>;
    const auto pack = [&](auto kernel, int run) {
      const unsigned lines = static_cast<unsigned>(windows.channels * windows.window_height);
      const Geometry geometry{{blocks_for(count, kColumnThreads * run), std::min(lines, kLargestGridY)},
                              {kColumnThreads}};
      launch(kernel, geometry, stream, windows, static_cast<int>(count), places, static_cast<const T*>(x),
             static_cast<T*>(columns));
    };
    // Runs may continue in the next image only if its columns follow.
    const bool in_runs = places.row_stride % kRun == 0 && places.image_stride % kRun == 0 && count % kRun == 0 &&
                         (places.image_stride == windows.pixels() || windows.pixels() % kRun == 0);
    if (in_runs && is_aligned(columns)) return pack(pack_columns<T, kRun>, kRun);
    pack(pack_columns<T, 1>, 1);
  });
}

void launch_sum_columns(Stream stream, DType columns_type, DType x_type, const ImageWindows& windows,
                        std::int64_t images, const ColumnPlaces& places, const void* columns, void* x,
                        bool accumulate) {
  const std::int64_t planes = images * windows.channels;
  const Geometry geometry = plane_geometry(planes, std::int64_t{windows.height} * windows.width);
  with_element(x_type, [&]<class T>() {
    const auto sum = [&]<class V>(const V* from) {
      launch(sum_columns<V, T>, geometry, stream, windows, planes, places, from, static_cast<T*>(x), accumulate);
    };
    if (columns_type == DType::f64) return sum(static_cast<const double*>(columns));
    sum(static_cast<const float*>(columns));
  });
}

}  // namespace strata::cuda
