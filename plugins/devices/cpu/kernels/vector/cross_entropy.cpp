#include "kernels/vector/global_index.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/vector.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
float maximum_of_row(std::int64_t columns, const T* x) {
  Float largest = broadcast(-kInfinity);
  each_vector(0, columns, [&](std::int64_t i, auto lanes) {
    largest = maximum(largest, with_unused(load(x + i, lanes), -kInfinity, lanes));
  });
  return horizontal_maximum(largest);
}

template <class T>
float exponentials_of_row(std::int64_t columns, const T* x, float m) {
  Float total{};
  each_vector(0, columns, [&](std::int64_t i, auto lanes) {
    total += exponential(with_unused(load(x + i, lanes), -kInfinity, lanes) - m);
  });
  return horizontal_sum(total);
}

template <class T>
void row_max(std::int64_t rows, std::int64_t columns, const T* x, float* m, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) m[row] = maximum_of_row(columns, x + row * columns);
  });
}

template <class T>
void sum_exponentials(std::int64_t rows, std::int64_t columns, const T* x, const float* m, float* s, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) s[row] = exponentials_of_row(columns, x + row * columns, m[row]);
  });
}

void log_sum_exponential(std::int64_t rows, const float* m, const float* s, float* lse, int threads) {
  parallel_rows(threads, rows, 16, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) lse[row] = m[row] + __builtin_logf(s[row]);
  });
}

template <class T>
void pick(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x, const std::int32_t* targets,
          float* picked, int threads) {
  parallel_rows(threads, rows, 16, [=, &vocabulary](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t column = local_index(vocabulary, columns, targets[row]);
      picked[row] = column < 0 ? 0.0F : load_one(x + row * columns + column);
    }
  });
}

double loss_sum(std::int64_t rows, const float* lse, const float* picked, const std::int32_t* targets) {
  double total = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (targets[row] >= 0) total += static_cast<double>(lse[row]) - static_cast<double>(picked[row]);
  }
  return total;
}

std::int64_t count_targets(std::int64_t rows, const std::int32_t* targets) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < rows; ++row) count += targets[row] >= 0 ? 1 : 0;
  return count;
}

template <class T>
void gradient(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x, const float* lse,
              const std::int32_t* targets, T* dx, int threads) {
  parallel_rows(threads, rows, columns, [=, &vocabulary](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* to = dx + row * columns;
      if (targets[row] < 0) {
        __builtin_memset(to, 0, static_cast<std::size_t>(columns) * sizeof(T));
        continue;
      }
      const float shift = lse[row];
      const std::int64_t column = local_index(vocabulary, columns, targets[row]);
      const float target = column >= 0 ? load_one(x + row * columns + column) : 0.0F;
      map_range(0, columns, x + row * columns, to, [shift](Float a) { return exponential(a - shift); });
      if (column >= 0) store_one(to + column, exponential(broadcast(target - shift))[0] - 1.0F);
    }
  });
}

template <class T>
constexpr CrossEntropyKernels<T> kKernels = {row_max<T>, sum_exponentials<T>, pick<T>, gradient<T>};

}  // namespace

const RowLossKernels row_loss_kernels = {log_sum_exponential, loss_sum, count_targets};
const ByElement<CrossEntropyKernels> cross_entropy_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
