#include "kernels/elementwise.hpp"

#include "kernels/vector/broadcast.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

void add(std::int64_t size, const float* x, const float* y, float* z, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, z, [](Float a, Float b) { return a + b; });
  });
}

void add_broadcast(const BroadcastShape& shape, const float* x, const float* y, float* z, int threads) {
  const MergedShape merged = merge(shape);
  const std::int64_t columns = merged.columns();
  parallel_rows(threads, merged.rows(), columns, [=, &merged](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* operand = y + merged.operand_offset(row);
      const std::int64_t at = row * columns;
      if (merged.columns_present()) {
        map_range(0, columns, x + at, operand, z + at, [](Float a, Float b) { return a + b; });
      } else {
        const Float value = broadcast(*operand);
        map_range(0, columns, x + at, z + at, [value](Float a) { return a + value; });
      }
    }
  });
}

/// A part small enough to stay in the first-level cache while the inputs are added one after another.
constexpr std::int64_t kSumBlock = 2048;

void sum_block(std::int64_t begin, std::int64_t end, const float* const* inputs, int count, float* y, bool accumulate) {
  float total[kSumBlock];
  const std::int64_t size = end - begin;
  map_range(0, size, inputs[0] + begin, total, [](Float a) { return a; });
  for (int i = 1; i < count; ++i) {
    map_range(0, size, total, inputs[i] + begin, total, [](Float a, Float b) { return a + b; });
  }
  if (accumulate) {
    map_range(0, size, y + begin, total, y + begin, [](Float a, Float b) { return a + b; });
  } else {
    map_range(0, size, total, y + begin, [](Float a) { return a; });
  }
}

void sum(std::int64_t size, const float* const* inputs, int count, float* y, bool accumulate, int threads) {
  if (count == 2 && !accumulate) return add(size, inputs[0], inputs[1], y, threads);
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += kSumBlock) {
      sum_block(at, smaller(end, at + kSumBlock), inputs, count, y, accumulate);
    }
  });
}

void accumulate(std::int64_t size, const float* x, float* y, int threads) { add(size, y, x, y, threads); }

void scale(std::int64_t size, float factor, const float* x, float* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, [=](Float a) { return a * factor; });
  });
}

void fill(std::int64_t size, float value, float* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = value;
  });
}

}  // namespace

const ElementwiseKernels elementwise_kernels = {add, add_broadcast, sum, accumulate, scale, fill};

}  // namespace strata::cpu::STRATA_CPU_TARGET
