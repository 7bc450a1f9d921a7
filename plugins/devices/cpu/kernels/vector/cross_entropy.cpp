#include "kernels/cross_entropy.hpp"

#include "kernels/vector/global_index.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

float maximum_of_row(std::int64_t columns, const float* x) {
  Float largest = broadcast(-kInfinity);
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) largest = maximum(largest, load(x + i));
  float result = horizontal_maximum(largest);
  for (; i < columns; ++i) result = result > x[i] ? result : x[i];
  return result;
}

float exponentials_of_row(std::int64_t columns, const float* x, float m) {
  Float total{};
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) total += exponential(load(x + i) - m);
  if (i < columns) {
    Float last = broadcast(-kInfinity);
    __builtin_memcpy(&last, x + i, static_cast<std::size_t>(columns - i) * sizeof(float));
    total += exponential(last - m);
  }
  return horizontal_sum(total);
}

void row_max(std::int64_t rows, std::int64_t columns, const float* x, float* m, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) m[row] = maximum_of_row(columns, x + row * columns);
  });
}

void sum_exponentials(std::int64_t rows, std::int64_t columns, const float* x, const float* m, float* s, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) s[row] = exponentials_of_row(columns, x + row * columns, m[row]);
  });
}

void log_sum_exponential(std::int64_t rows, const float* m, const float* s, float* lse, int threads) {
  parallel_rows(threads, rows, 16, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) lse[row] = m[row] + __builtin_logf(s[row]);
  });
}

void row_log_sum_exponential(std::int64_t rows, std::int64_t columns, const float* x, float* lse, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float m = maximum_of_row(columns, x + row * columns);
      lse[row] = m + __builtin_logf(exponentials_of_row(columns, x + row * columns, m));
    }
  });
}

void pick(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const float* x,
          const std::int32_t* targets, float* picked, int threads) {
  parallel_rows(threads, rows, 16, [=, &vocabulary](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t column = local_index(vocabulary, columns, targets[row]);
      picked[row] = column < 0 ? 0.0F : x[row * columns + column];
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

void gradient(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const float* x, const float* lse,
              const std::int32_t* targets, float* dx, int threads) {
  parallel_rows(threads, rows, columns, [=, &vocabulary](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* to = dx + row * columns;
      if (targets[row] < 0) {
        __builtin_memset(to, 0, static_cast<std::size_t>(columns) * sizeof(float));
        continue;
      }
      const float shift = lse[row];
      map_range(0, columns, x + row * columns, to, [shift](Float a) { return exponential(a - shift); });
      const std::int64_t column = local_index(vocabulary, columns, targets[row]);
      if (column >= 0) to[column] -= 1.0F;
    }
  });
}

}  // namespace

const CrossEntropyKernels cross_entropy_kernels = {
    row_max, sum_exponentials, log_sum_exponential, row_log_sum_exponential, pick, loss_sum, count_targets, gradient,
};

}  // namespace strata::cpu::STRATA_CPU_TARGET
