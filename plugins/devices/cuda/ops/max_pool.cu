#include "device/cuda_kernel.hpp"
#include "language/language.hpp"
#include "launchers/call.hpp"

namespace strata::cuda {

inline constexpr int kPoolThreads = 256;

/// Square windows over images [batch, channels, height, width].
struct PoolShape {
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t size;
  std::int64_t stride;
  std::int64_t padding;

  /// The pixel that a window of an image takes: the largest one, and of equal ones the first.
  template <class T>
  [[nodiscard]] __device__ __forceinline__ std::int64_t largest(const T* image, std::int64_t row,
                                                                std::int64_t column) const {
    std::int64_t found = -1;
    for (std::int64_t m = 0; m < size; ++m) {
      const std::int64_t y = row * stride + m - padding;
      if (y < 0 || y >= height) continue;
      for (std::int64_t n = 0; n < size; ++n) {
        const std::int64_t x = column * stride + n - padding;
        if (x < 0 || x >= width) continue;
        if (found < 0 || widen(image[y * width + x]) > widen(image[found])) found = y * width + x;
      }
    }
    return found;
  }
};

template <class T>
__global__ void __launch_bounds__(kPoolThreads) max_pool(PoolShape shape, std::int64_t count, const T* x, T* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kPoolThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = i / shape.out_width;
  const T* image = x + row / shape.out_height * shape.height * shape.width;
  y[i] = image[shape.largest(image, row % shape.out_height, i % shape.out_width)];
}

/// Each thread sums dy of the windows that take its pixel, so the order of the sum does not depend on timing.
template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_gradient(PoolShape shape, std::int64_t count, const T* dy, const T* x, T* dx, bool accumulate) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kPoolThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t pixels = shape.height * shape.width;
  const std::int64_t pixel = i % pixels;
  const T* image = x + i / pixels * pixels;
  const T* gradients = dy + i / pixels * shape.out_height * shape.out_width;
  Accumulate<T> sum = accumulate ? widen(dx[i]) : Accumulate<T>{0};
  for (std::int64_t m = 0; m < shape.size; ++m) {
    const std::int64_t top = pixel / shape.width + shape.padding - m;
    if (top < 0 || top % shape.stride != 0 || top / shape.stride >= shape.out_height) continue;
    for (std::int64_t n = 0; n < shape.size; ++n) {
      const std::int64_t left = pixel % shape.width + shape.padding - n;
      if (left < 0 || left % shape.stride != 0 || left / shape.stride >= shape.out_width) continue;
      const std::int64_t row = top / shape.stride;
      const std::int64_t column = left / shape.stride;
      if (shape.largest(image, row, column) == pixel) sum += widen(gradients[row * shape.out_width + column]);
    }
  }
  dx[i] = narrow<T>(sum);
}

namespace {

Geometry threads_of(std::int64_t count) { return {{blocks_for(count, kPoolThreads)}, {kPoolThreads}}; }

PoolShape pool_shape(const OpInstance& op, const Shape& x, const Shape& y) {
  return {x[2],
          x[3],
          y[2],
          y[3],
          op.attributes.integer("size"),
          op.attributes.integer("stride"),
          op.attributes.integer("padding")};
}

}  // namespace

void register_max_pool(Registration& registration) {
  add(registration, {"max_pool", "t", "t"}, []<class T>(const OpInstance& op) {
    const std::int64_t count = elements(op.results[0]);
    return call(max_pool<T>, threads_of(count), pool_shape(op, op.operands[0].shape, op.results[0].shape), count,
                Operand<T>{0}, Result<T>{0});
  });
  add(registration, {"max_pool_gradient", "tt", "t", true}, []<class T>(const OpInstance& op) {
    const std::int64_t count = elements(op.results[0]);
    return call(max_pool_gradient<T>, threads_of(count), pool_shape(op, op.operands[1].shape, op.operands[0].shape),
                count, Operand<T>{0}, Operand<T>{1}, Result<T>{0}, op.accumulate);
  });
}

}  // namespace strata::cuda
