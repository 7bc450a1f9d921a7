#include "kernels/layer_norm.hpp"

#include "kernels/vector/column_sum.hpp"
#include "kernels/vector/row_total.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void normalise_row(std::int64_t columns, float epsilon, const T* x, const float* gain, const float* bias, T* y,
                   float* mean_out, float* inverse_std_out) {
  const float count = static_cast<float>(columns);
  const float mean = row_total(
                         columns, [=](std::int64_t i) { return load(x + i); },
                         [=](std::int64_t i, std::int64_t n) { return load_first(x + i, n); }) /
                     count;
  const auto squared = [mean](Float value) { return (value - mean) * (value - mean); };
  const float variance =
      row_total(
          columns, [=](std::int64_t i) { return squared(load(x + i)); },
          [=](std::int64_t i, std::int64_t n) { return squared(load_first(x + i, n)) * first_lanes(n); }) /
      count;
  const float inverse_std = 1.0F / __builtin_sqrtf(variance + epsilon);
  const auto result = [=](Float value, Float g, Float b) { return multiply_add((value - mean) * inverse_std, g, b); };
  each_vector(
      0, columns, [=](std::int64_t i) { store(y + i, result(load(x + i), load(gain + i), load(bias + i))); },
      [=](std::int64_t i, std::int64_t n) {
        store_first(y + i, result(load_first(x + i, n), load_first(gain + i, n), load_first(bias + i, n)), n);
      });
  *mean_out = mean;
  *inverse_std_out = inverse_std;
}

template <class T>
void forward(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain, const float* bias,
             T* y, float* mean, float* inverse_std, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      normalise_row(columns, epsilon, x + row * columns, gain, bias, y + row * columns, mean + row, inverse_std + row);
    }
  });
}

/// With xhat = (x - mean) * inverse_std and g = dy * gain: dx = inverse_std * (g - mean(g) - xhat * mean(g * xhat)).
template <class T>
void row_gradient(std::int64_t columns, const T* dy, const T* x, const float* gain, float mean, float inverse_std,
                  T* dx, bool accumulate) {
  const auto normalised = [=](Float value) { return (value - mean) * inverse_std; };
  const float count = static_cast<float>(columns);
  const float mean_g =
      row_total(
          columns, [=](std::int64_t i) { return load(dy + i) * load(gain + i); },
          [=](std::int64_t i, std::int64_t n) { return load_first(dy + i, n) * load_first(gain + i, n); }) /
      count;
  const float mean_gx =
      row_total(
          columns, [=](std::int64_t i) { return load(dy + i) * load(gain + i) * normalised(load(x + i)); },
          [=](std::int64_t i, std::int64_t n) {
            return load_first(dy + i, n) * load_first(gain + i, n) * normalised(load_first(x + i, n));
          }) /
      count;
  const auto result = [=](Float d, Float value, Float g) {
    return multiply_add(normalised(value), -mean_gx, multiply_add(d, g, -mean_g)) * inverse_std;
  };
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
                    const float* mean, const float* inverse_std, T* dx, bool accumulate, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * columns;
      row_gradient(columns, dy + at, x + at, gain, mean[row], inverse_std[row], dx + at, accumulate);
    }
  });
}

template <class T>
void parameter_gradient(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* mean,
                        const float* inverse_std, float* dgain, bool accumulate_gain, float* dbias,
                        bool accumulate_bias, int threads) {
  const auto normalised = [=](Float value, std::int64_t row) { return (value - mean[row]) * inverse_std[row]; };
  const auto whole = [=](std::int64_t row, std::int64_t column) { return load(dy + row * columns + column); };
  const auto first = [=](std::int64_t row, std::int64_t column, std::int64_t n) {
    return load_first(dy + row * columns + column, n);
  };
  parallel_columns(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    if (dbias != nullptr) sum_columns(rows, begin, end, dbias, accumulate_bias, whole, first);
    if (dgain == nullptr) return;
    sum_columns(
        rows, begin, end, dgain, accumulate_gain,
        [=](std::int64_t row, std::int64_t column) {
          return whole(row, column) * normalised(load(x + row * columns + column), row);
        },
        [=](std::int64_t row, std::int64_t column, std::int64_t n) {
          return first(row, column, n) * normalised(load_first(x + row * columns + column, n), row);
        });
  });
}

template <class T>
constexpr LayerNormKernels<T> kKernels = {forward<T>, input_gradient<T>, parameter_gradient<T>};

}  // namespace

const ByElement<LayerNormKernels> layer_norm_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
