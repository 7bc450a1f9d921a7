#include "kernels/vector/broadcast.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void add(std::int64_t size, const T* x, const T* y, T* z, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, z, [](Float a, Float b) { return a + b; });
  });
}

/// z = operation(x, y), where y lacks some dims of x.
template <class T, class Operation>
void repeated(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads, const Operation& operation) {
  const MergedShape merged = merge(shape);
  const std::int64_t columns = merged.columns();
  parallel_rows(threads, merged.rows(), columns, [=, &merged](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* operand = y + merged.operand_offset(row);
      const std::int64_t at = row * columns;
      if (merged.columns_present()) {
        map_range(0, columns, x + at, operand, z + at, operation);
      } else {
        const Float value = broadcast(load_one(operand));
        map_range(0, columns, x + at, z + at, [=](Float a) { return operation(a, value); });
      }
    }
  });
}

template <class T>
void add_broadcast(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads) {
  repeated(shape, x, y, z, threads, [](Float a, Float b) { return a + b; });
}

template <class T>
void multiply_broadcast(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads) {
  repeated(shape, x, y, z, threads, [](Float a, Float b) { return a * b; });
}

template <class T>
void multiply(std::int64_t size, const T* x, const T* y, T* z, bool accumulate, int threads) {
  parallel_vectors(threads, size, [=](std::int64_t i, auto lanes) {
    const Float a = load(x + i, lanes);
    const Float b = load(y + i, lanes);
    store(z + i, accumulate ? multiply_add(a, b, load(z + i, lanes)) : a * b, lanes);
  });
}

/// Elements per block. A block stays in the first-level cache while the inputs are added to it.
constexpr std::int64_t kSumBlock = 2048;

template <class T>
void sum_block(std::int64_t begin, std::int64_t end, const T* const* inputs, int count, T* y, bool accumulate) {
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

template <class T>
void sum(std::int64_t size, const T* const* inputs, int count, T* y, bool accumulate, int threads) {
  if (count == 2 && !accumulate) return add(size, inputs[0], inputs[1], y, threads);
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += kSumBlock) {
      sum_block(at, smaller(end, at + kSumBlock), inputs, count, y, accumulate);
    }
  });
}

template <class T>
void scale(std::int64_t size, float factor, const T* x, T* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    map_range(begin, end, x, y, [=](Float a) { return a * factor; });
  });
}

template <class T>
void normalize(const BroadcastShape& shape, float epsilon, const T* x, const float* squares, T* y, int threads) {
  const MergedShape merged = merge(shape);
  const std::int64_t columns = merged.columns();
  parallel_rows(threads, merged.rows(), columns, [=, &merged](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* of_row = squares + merged.operand_offset(row);
      const std::int64_t at = row * columns;
      if (merged.columns_present()) {
        map_range(0, columns, x + at, of_row, y + at, [=](Float a, Float b) { return a / (square_root(b) + epsilon); });
      } else {
        const float factor = 1.0F / (__builtin_sqrtf(*of_row) + epsilon);
        map_range(0, columns, x + at, y + at, [=](Float a) { return a * factor; });
      }
    }
  });
}

void convert(std::int64_t size, Element from, const void* x, Element to, void* y, bool accumulate, int threads) {
  with_elements(from, x, [&](const auto* source) {
    with_elements(to, y, [&](auto* destination) {
      parallel_vectors(threads, size, [=](std::int64_t i, auto lanes) {
        store(destination + i, load(source + i, lanes), accumulate, lanes);
      });
    });
  });
}

template <class T>
constexpr ElementwiseKernels<T> kKernels = {add<T>, add_broadcast<T>, multiply<T>, multiply_broadcast<T>,
                                            sum<T>, scale<T>,         normalize<T>};

}  // namespace

const ByElement<ElementwiseKernels> elementwise_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};
const ConversionKernels conversion_kernels = {convert};

}  // namespace strata::cpu::STRATA_CPU_TARGET
