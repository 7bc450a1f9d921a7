#pragma once

#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/math.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

struct Identity {
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return x;
  }
};

struct Add {
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return x + y;
  }
};

/// Multiplies by the step's loss scale.
struct ScaleByLossScale {
  const StepValues* step;

  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return static_cast<Value>(__ldg(&step->loss_scale)) * x;
  }
};

/// The layout of y relative to x[..., columns].
struct BroadcastOperand {
  /// Maps an element of x to its element of y.
  StridedIndex place;
  /// True if y has the columns dim. Otherwise y is constant along a row.
  bool has_columns = true;
};

inline constexpr int kBroadcastThreads = 256;

/// Loads N neighbours of one row.
template <int N, class T>
__device__ __forceinline__ void add_broadcast_run(const BroadcastOperand& broadcast, bool accumulate, std::int64_t at,
                                                  const T* x, const T* y, T* z) {
  using A = Accumulate<T>;
  A sum[N];
  A other[N];
  load_run<N>(x + at, sum);
  const T* from = y + broadcast.place(at);
  if (broadcast.has_columns) {
    load_run<N>(from, other);
  } else {
    const A value = to_computed<A>(*from);
#pragma unroll
    for (int i = 0; i < N; ++i) other[i] = value;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] += other[i];
  if (accumulate) {
    load_run<N>(z + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += other[i];
  }
  store_run<N>(z + at, sum);
}

/// z (+)= x + y. x may alias z. `packed`: rows are multiples of a run, and addresses are aligned.
template <class T>
__global__ void __launch_bounds__(kBroadcastThreads)
    add_broadcast(BroadcastOperand broadcast, std::int64_t size, bool packed, bool accumulate, const T* x, const T* y,
                  T* z) {
  constexpr int kRun = kRunLength<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kBroadcastThreads + threadIdx.x;
  if (packed) {
    if (index * kRun < size) add_broadcast_run<kRun>(broadcast, accumulate, index * kRun, x, y, z);
  } else {
    if (index < size) add_broadcast_run<1>(broadcast, accumulate, index, x, y, z);
  }
}

/// y = x / (√squares + epsilon). `place` maps an element of x to its element of squares.
template <class T>
__global__ void __launch_bounds__(kBroadcastThreads)
    normalize(StridedIndex place, std::int64_t size, double epsilon, const T* x, const Accumulate<T>* squares, T* y) {
  using A = Accumulate<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kBroadcastThreads + threadIdx.x;
  if (index >= size) return;
  A value[1];
  load_run<1>(x + index, value);
  value[0] /= square_root(squares[place(index)]) + static_cast<A>(epsilon);
  store_run<1>(y + index, value);
}

}  // namespace strata::cuda
