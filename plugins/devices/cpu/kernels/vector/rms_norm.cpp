#include "kernels/rms_norm.hpp"

#include "kernels/vector/column_sum.hpp"
#include "kernels/vector/row_total.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
float normalise_row(std::int64_t columns, float epsilon, const T* x, const float* gain, T* y) {
  const float squares = row_total(
      columns,
      [=](std::int64_t i) {
        const Float value = load(x + i);
        return value * value;
      },
      [=](std::int64_t i, std::int64_t n) {
        const Float value = load_first(x + i, n);
        return value * value;
      });
  const float inverse_rms = 1.0F / __builtin_sqrtf(squares / static_cast<float>(columns) + epsilon);
  map_range(0, columns, x, gain, y, [=](Float value, Float g) { return value * inverse_rms * g; });
  return inverse_rms;
}

template <class T>
void forward(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain, T* y,
             float* inverse_rms, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      inverse_rms[row] = normalise_row(columns, epsilon, x + row * columns, gain, y + row * columns);
    }
  });
}

/// With xhat = x * inverse_rms and g = dy * gain: dx = inverse_rms * (g - xhat * mean(g * xhat)).
template <class T>
void row_gradient(std::int64_t columns, const T* dy, const T* x, const float* gain, float inverse_rms, T* dx,
                  bool accumulate) {
  const float mean_gx = row_total(
                            columns, [=](std::int64_t i) { return load(dy + i) * load(gain + i) * load(x + i); },
                            [=](std::int64_t i, std::int64_t n) {
                              return load_first(dy + i, n) * load_first(gain + i, n) * load_first(x + i, n);
                            }) *
                        inverse_rms / static_cast<float>(columns);
  const float factor = -mean_gx * inverse_rms;
  const auto result = [=](Float d, Float value, Float g) { return multiply_add(value, factor, d * g) * inverse_rms; };
  each_vector(
      0, columns,
      [=](std::int64_t i) {
        const Float gradient = result(load(dy + i), load(x + i), load(gain + i));
        store(dx + i, accumulate ? load(dx + i) + gradient : gradient);
      },
      [=](std::int64_t i, std::int64_t n) {
        const Float gradient = result(load_first(dy + i, n), load_first(x + i, n), load_first(gain + i, n));
        store_first(dx + i, accumulate ? load_first(dx + i, n) + gradient : gradient, n);
      });
}

template <class T>
void input_gradient(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                    const float* inverse_rms, T* dx, bool accumulate, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * columns;
      row_gradient(columns, dy + at, x + at, gain, inverse_rms[row], dx + at, accumulate);
    }
  });
}

template <class T>
void parameter_gradient(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* inverse_rms,
                        float* dgain, bool accumulate, int threads) {
  parallel_columns(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    sum_columns(
        rows, begin, end, dgain, accumulate,
        [=](std::int64_t row, std::int64_t column) {
          const std::int64_t at = row * columns + column;
          return load(dy + at) * (load(x + at) * inverse_rms[row]);
        },
        [=](std::int64_t row, std::int64_t column, std::int64_t n) {
          const std::int64_t at = row * columns + column;
          return load_first(dy + at, n) * (load_first(x + at, n) * inverse_rms[row]);
        });
  });
}

template <class T>
constexpr RmsNormKernels<T> kKernels = {forward<T>, input_gradient<T>, parameter_gradient<T>};

}  // namespace

const ByElement<RmsNormKernels> rms_norm_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
