#pragma once

#include "kernels/element_run.cuh"

/// \file
/// Batches of products that are too small for tiles.

namespace strata::cuda {

inline constexpr int kSmallProductThreads = 256;

/// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// c = a · b for every matrix of a batch.
struct SmallProduct {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  MatrixStrides a;
  MatrixStrides b;
  MatrixStrides c;

  [[nodiscard]] __host__ __device__ std::int64_t elements() const { return batch * rows * columns; }
};

/// c (+)= a · b, one element per thread.
template <class T, class Y>
__global__ void __launch_bounds__(kSmallProductThreads)
    multiply_small(SmallProduct shape, const T* a, const T* b, Y* c, bool accumulate) {
  using Value = Accumulate<T>;
  const std::int64_t element = std::int64_t{blockIdx.x} * kSmallProductThreads + threadIdx.x;
  if (element >= shape.elements()) return;
  const std::int64_t column = element % shape.columns;
  const std::int64_t row = element / shape.columns % shape.rows;
  const std::int64_t matrix = element / shape.columns / shape.rows;
  a += matrix * shape.a.batch + row * shape.a.row;
  b += matrix * shape.b.batch + column * shape.b.column;
  c += matrix * shape.c.batch + row * shape.c.row + column * shape.c.column;
  Value sum = 0;
  for (std::int64_t k = 0; k < shape.depth; ++k) {
    sum += to_computed<Value>(a[k * shape.a.column]) * to_computed<Value>(b[k * shape.b.row]);
  }
  *c = to_element<Y>(accumulate ? to_computed<Value>(*c) + sum : sum);
}

}  // namespace strata::cuda
