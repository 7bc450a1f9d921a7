#include "kernels/vector/column_sum.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Sums term(i, lanes) over the vectors of a row. Four partial sums hide the latency of additions and reduce the
/// rounding error of a long row.
template <class Term>
inline float row_total(std::int64_t columns, const Term& term) {
  constexpr int kSums = 4;
  Float sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= columns; i += kSums * kLanes) {
    STRATA_UNROLL
    for (int part = 0; part < kSums; ++part) sums[part] += term(i + part * kLanes, AllLanes{});
  }
  for (; i + kLanes <= columns; i += kLanes) sums[0] += term(i, AllLanes{});
  if (i < columns) sums[1] += term(i, FirstLanes{columns - i});
  return horizontal_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// With kCentered the norm is layer norm. Without it, it is RMS norm: the mean is 0, and there is no bias.

template <bool kCentered, class T>
void normalise_row(std::int64_t columns, float epsilon, const T* x, const float* gain, const float* bias, T* y,
                   float* mean_out, float* inverse_out) {
  const float count = static_cast<float>(columns);
  float mean = 0.0F;
  if constexpr (kCentered) {
    mean = row_total(columns, [=](std::int64_t i, auto lanes) { return load(x + i, lanes); }) / count;
    *mean_out = mean;
  }
  const float squares = row_total(columns, [=](std::int64_t i, auto lanes) {
    const Float centered = load(x + i, lanes) - mean;
    return with_unused(centered * centered, 0.0F, lanes);
  });
  const float inverse = 1.0F / __builtin_sqrtf(squares / count + epsilon);
  *inverse_out = inverse;
  each_vector(0, columns, [=](std::int64_t i, auto lanes) {
    const Float normalised = (load(x + i, lanes) - mean) * inverse;
    const Float g = load(gain + i, lanes);
    if constexpr (kCentered) {
      store(y + i, multiply_add(normalised, g, load(bias + i, lanes)), lanes);
    } else {
      store(y + i, normalised * g, lanes);
    }
  });
}

template <bool kCentered, class T>
void forward(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain, const float* bias,
             T* y, float* mean, float* inverse, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * columns;
      normalise_row<kCentered>(columns, epsilon, x + at, gain, bias, y + at, kCentered ? mean + row : nullptr,
                               inverse + row);
    }
  });
}

/// With xhat = (x - mean) * inverse and g = dy * gain: dx = inverse * (g - average(g) - xhat * average(g * xhat)). RMS
/// norm has no average(g).
template <bool kCentered, class T>
void row_gradient(std::int64_t columns, const T* dy, const T* x, const float* gain, float mean, float inverse, T* dx,
                  bool accumulate) {
  const float count = static_cast<float>(columns);
  const auto scaled = [=](std::int64_t i, auto lanes) { return load(dy + i, lanes) * load(gain + i, lanes); };
  if constexpr (kCentered) {
    const auto normalised = [=](std::int64_t i, auto lanes) { return (load(x + i, lanes) - mean) * inverse; };
    const float average = row_total(columns, scaled) / count;
    const float product_average =
        row_total(columns, [=](std::int64_t i, auto lanes) { return scaled(i, lanes) * normalised(i, lanes); }) / count;
    each_vector(0, columns, [=](std::int64_t i, auto lanes) {
      const Float g = multiply_add(load(dy + i, lanes), load(gain + i, lanes), broadcast(-average));
      store(dx + i, multiply_add(normalised(i, lanes), -product_average, g) * inverse, accumulate, lanes);
    });
  } else {
    const float product_average =
        row_total(columns, [=](std::int64_t i, auto lanes) { return scaled(i, lanes) * load(x + i, lanes); }) *
        inverse / count;
    const float factor = -product_average * inverse;
    each_vector(0, columns, [=](std::int64_t i, auto lanes) {
      store(dx + i, multiply_add(load(x + i, lanes), factor, scaled(i, lanes)) * inverse, accumulate, lanes);
    });
  }
}

template <bool kCentered, class T>
void input_gradient(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                    const float* mean, const float* inverse, T* dx, bool accumulate, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * columns;
      row_gradient<kCentered>(columns, dy + at, x + at, gain, kCentered ? mean[row] : 0.0F, inverse[row], dx + at,
                              accumulate);
    }
  });
}

template <bool kCentered, class T>
void parameter_gradient(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* mean,
                        const float* inverse, float* dgain, float* dbias, bool accumulate, int threads) {
  const auto gradient = [=](std::int64_t row, std::int64_t column, auto lanes) {
    return load(dy + row * columns + column, lanes);
  };
  parallel_columns(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    if constexpr (kCentered) sum_columns(rows, begin, end, dbias, accumulate, gradient);
    sum_columns(rows, begin, end, dgain, accumulate, [=](std::int64_t row, std::int64_t column, auto lanes) {
      const Float value = load(x + row * columns + column, lanes);
      return gradient(row, column, lanes) * ((kCentered ? value - mean[row] : value) * inverse[row]);
    });
  });
}

template <bool kCentered, class T>
constexpr NormKernels<T> kKernels = {forward<kCentered, T>, input_gradient<kCentered, T>,
                                     parameter_gradient<kCentered, T>};

}  // namespace

const ByElement<NormKernels> layer_norm_kernels = {kKernels<true, float>, kKernels<true, BFloat16>,
                                                   kKernels<true, Float16>};
const ByElement<NormKernels> rms_norm_kernels = {kKernels<false, float>, kKernels<false, BFloat16>,
                                                 kKernels<false, Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
