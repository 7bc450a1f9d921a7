#include "device/cuda_kernel.hpp"
#include "language/language.hpp"
#include "language/launch.hpp"

namespace strata::cuda {

inline constexpr int kConvolutionThreads = 256;

/// Sizes of x[batch, channels, height, width], w[out_channels, channels, rows, columns] and
/// y[batch, out_channels, out_height, out_width].
struct ConvolutionSizes {
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_channels;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t stride;
  std::int64_t padding;
};

/// The place of an element in a row-major tensor of four dims.
struct ImagePlace {
  std::int64_t outer;
  std::int64_t channel;
  std::int64_t row;
  std::int64_t column;
};

__device__ __forceinline__ ImagePlace place_of(std::int64_t i, std::int64_t channels, std::int64_t height,
                                               std::int64_t width) {
  const std::int64_t row = i / width;
  const std::int64_t channel = row / height;
  return {channel / channels, channel % channels, row % height, i % width};
}

/// y, by one thread for each element.
template <class T>
struct ConvolvedImage {
  __device__ __forceinline__ static Accumulate<T> at(const ConvolutionSizes& s, std::int64_t index, const T* x,
                                                     const T* w) {
    const ImagePlace y = place_of(index, s.out_channels, s.out_height, s.out_width);
    Accumulate<T> sum = 0;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const T* image = x + (y.outer * s.channels + c) * s.height * s.width;
      const T* window = w + (y.channel * s.channels + c) * s.rows * s.columns;
      for (std::int64_t m = 0; m < s.rows; ++m) {
        const std::int64_t row = y.row * s.stride + m - s.padding;
        if (row < 0 || row >= s.height) continue;
        for (std::int64_t n = 0; n < s.columns; ++n) {
          const std::int64_t column = y.column * s.stride + n - s.padding;
          if (column < 0 || column >= s.width) continue;
          sum += widen(image[row * s.width + column]) * widen(window[m * s.columns + n]);
        }
      }
    }
    return sum;
  }
};

/// dx of dy and w: the sum over the windows that read the pixel.
template <class T>
struct ImageGradient {
  __device__ __forceinline__ static Accumulate<T> at(const ConvolutionSizes& s, std::int64_t index, const T* dy,
                                                     const T* w) {
    const ImagePlace x = place_of(index, s.channels, s.height, s.width);
    Accumulate<T> sum = 0;
    for (std::int64_t m = 0; m < s.rows; ++m) {
      const std::int64_t row = x.row + s.padding - m;
      if (row < 0 || row % s.stride != 0 || row / s.stride >= s.out_height) continue;
      for (std::int64_t n = 0; n < s.columns; ++n) {
        const std::int64_t column = x.column + s.padding - n;
        if (column < 0 || column % s.stride != 0 || column / s.stride >= s.out_width) continue;
        const std::int64_t pixel = row / s.stride * s.out_width + column / s.stride;
        for (std::int64_t o = 0; o < s.out_channels; ++o) {
          const std::int64_t image = (x.outer * s.out_channels + o) * s.out_height * s.out_width;
          const std::int64_t window = (o * s.channels + x.channel) * s.rows * s.columns;
          sum += widen(dy[image + pixel]) * widen(w[window + m * s.columns + n]);
        }
      }
    }
    return sum;
  }
};

/// dw of x and dy: the sum over all windows.
template <class T>
struct WindowGradient {
  __device__ __forceinline__ static Accumulate<T> at(const ConvolutionSizes& s, std::int64_t index, const T* x,
                                                     const T* dy) {
    const ImagePlace w = place_of(index, s.channels, s.rows, s.columns);
    Accumulate<T> sum = 0;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const T* image = x + (b * s.channels + w.channel) * s.height * s.width;
      const T* gradient = dy + (b * s.out_channels + w.outer) * s.out_height * s.out_width;
      for (std::int64_t i = 0; i < s.out_height; ++i) {
        const std::int64_t row = i * s.stride + w.row - s.padding;
        if (row < 0 || row >= s.height) continue;
        for (std::int64_t j = 0; j < s.out_width; ++j) {
          const std::int64_t column = j * s.stride + w.column - s.padding;
          if (column < 0 || column >= s.width) continue;
          sum += widen(image[row * s.width + column]) * widen(gradient[i * s.out_width + j]);
        }
      }
    }
    return sum;
  }
};

template <class Sum, class T, class R>
__global__ void __launch_bounds__(kConvolutionThreads)
    convolve(ConvolutionSizes sizes, std::int64_t count, const T* first, const T* second, R* result, bool accumulate) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kConvolutionThreads + threadIdx.x;
  if (index >= count) return;
  Accumulate<T> sum = Sum::at(sizes, index, first, second);
  if (accumulate) sum += static_cast<Accumulate<T>>(widen(result[index]));
  result[index] = narrow<R>(sum);
}

namespace {

ConvolutionSizes sizes_of(const OpInstance& op, const Shape& x, const Shape& w, const Shape& y) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          w[0],
          w[2],
          w[3],
          y[2],
          y[3],
          op.attributes.integer("stride"),
          op.attributes.integer("padding")};
}

template <template <class> class Sum>
PreparedKernel prepare_products(const OpInstance& op, const ConvolutionSizes& sizes) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return with_element(op.results[0].dtype, [&]<class R>() -> PreparedKernel {
      return {[sizes, count = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
        launch(convolve<Sum<T>, T, R>, {{blocks_for(count, kConvolutionThreads)}, {kConvolutionThreads}},
               arguments.stream, sizes, count, in<T>(arguments, 0), in<T>(arguments, 1), out<R>(arguments, 0),
               accumulate);
      }};
    });
  });
}

PreparedKernel prepare_convolution(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return prepare_products<ConvolvedImage>(
      op, sizes_of(op, op.operands[0].shape, op.operands[1].shape, op.results[0].shape));
}

PreparedKernel prepare_image_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return prepare_products<ImageGradient>(op,
                                         sizes_of(op, op.results[0].shape, op.operands[1].shape, op.operands[0].shape));
}

PreparedKernel prepare_window_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return prepare_products<WindowGradient>(
      op, sizes_of(op, op.operands[0].shape, op.results[0].shape, op.operands[1].shape));
}

}  // namespace

void register_convolution(Registration& registration) {
  registration.add(kernel({"convolution", "tt", "r", prepare_convolution, true}));
  registration.add(kernel({"convolution_input_gradient", "tt", "r", prepare_image_gradient, true}));
  registration.add(kernel({"convolution_weight_gradient", "tt", "r", prepare_window_gradient, true}));
}

}  // namespace strata::cuda
