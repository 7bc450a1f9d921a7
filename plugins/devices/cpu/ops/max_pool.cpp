#include <algorithm>

#include "cpu_kernel.hpp"

namespace strata::cpu {
namespace {

/// Square windows over images [batch, channels, height, width].
struct PoolWindows {
  PoolWindows(const OpInstance& op, const Shape& x, const Shape& y)
      : images(x[0] * x[1]),
        height(x[2]),
        width(x[3]),
        out_height(y[2]),
        out_width(y[3]),
        size(op.attributes.integer("size")),
        stride(op.attributes.integer("stride")),
        padding(op.attributes.integer("padding")) {}

  /// Calls body(image) for all images of one channel, on several threads.
  template <class Body>
  void for_each(int threads, const Body& body) const {
    for_each_row(threads, images, out_height * out_width * size * size, body);
  }

  /// The pixel that a window of an image takes: the largest one, and of equal ones the first.
  template <class T>
  [[nodiscard]] std::int64_t largest(const T* image, std::int64_t row, std::int64_t column) const {
    const std::int64_t top = row * stride - padding;
    const std::int64_t left = column * stride - padding;
    const std::int64_t bottom = std::min(top + size, height);
    const std::int64_t right = std::min(left + size, width);
    std::int64_t found = std::max<std::int64_t>(top, 0) * width + std::max<std::int64_t>(left, 0);
    for (std::int64_t y = std::max<std::int64_t>(top, 0); y < bottom; ++y) {
      for (std::int64_t x = std::max<std::int64_t>(left, 0); x < right; ++x) {
        if (widen(image[y * width + x]) > widen(image[found])) found = y * width + x;
      }
    }
    return found;
  }

  std::int64_t images;
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t size;
  std::int64_t stride;
  std::int64_t padding;
};

constexpr auto kMaxPool = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const PoolWindows windows(op, op.operands[0].shape, op.results[0].shape);
  return {[windows, threads = environment.threads()](const KernelArguments& arguments) {
    windows.for_each(threads, [&](std::int64_t image) {
      const T* from = in<T>(arguments, 0) + image * windows.height * windows.width;
      T* to = out<T>(arguments, 0) + image * windows.out_height * windows.out_width;
      for (std::int64_t row = 0; row < windows.out_height; ++row) {
        for (std::int64_t column = 0; column < windows.out_width; ++column) {
          *to++ = from[windows.largest(from, row, column)];
        }
      }
    });
  }};
};

/// Pixels that several windows take are summed in f32.
constexpr auto kMaxPoolGradient = []<class T>(const OpInstance& op,
                                              const CpuEnvironment& environment) -> PreparedKernel {
  const PoolWindows windows(op, op.operands[1].shape, op.operands[0].shape);
  return {[windows, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
    const std::int64_t pixels = windows.height * windows.width;
    windows.for_each(threads, [&](std::int64_t image) {
      const T* x = in<T>(arguments, 1) + image * pixels;
      const T* dy = in<T>(arguments, 0) + image * windows.out_height * windows.out_width;
      T* dx = out<T>(arguments, 0) + image * pixels;
      std::vector<float> sums(static_cast<std::size_t>(pixels), 0.0F);
      for (std::int64_t row = 0; row < windows.out_height; ++row) {
        for (std::int64_t column = 0; column < windows.out_width; ++column) {
          sums[static_cast<std::size_t>(windows.largest(x, row, column))] += widen(*dy++);
        }
      }
      for (std::int64_t i = 0; i < pixels; ++i) {
        store_value(dx[i], sums[static_cast<std::size_t>(i)], accumulate);
      }
    });
  }};
};

}  // namespace

void register_max_pool(Registration& registration) {
  add(registration, {"max_pool", "t", "t"}, kMaxPool);
  add(registration, {"max_pool_gradient", "tt", "t", true}, kMaxPoolGradient);
}

}  // namespace strata::cpu
