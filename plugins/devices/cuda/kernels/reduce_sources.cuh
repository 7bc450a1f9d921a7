#pragma once

#include "kernels/element_run.cuh"
#include "launchers/reduce_sources.hpp"

namespace strata::cuda {

/// The source addresses of a reduction, passed by value.
struct ReducedSources {
  int count = 0;
  const void* at[kMaxReducedSources] = {};
};

namespace detail {
/// The type in which elements are reduced. Integers are reduced in their own type.
template <class T>
struct Reduced {
  using type = std::conditional_t<std::is_integral_v<T>, T, Accumulate<T>>;
};
}  // namespace detail

/// The greater of two numbers, or the first if neither is greater, as for NaN.
struct Greatest {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

inline constexpr int kReduceThreads = 256;

template <int N, class T, class Combine>
__device__ __forceinline__ void reduce_run(const ReducedSources& sources, const Combine& combine, std::int64_t at,
                                           T* y) {
  using A = typename detail::Reduced<T>::type;
  A result[N];
  load_run<N>(static_cast<const T*>(sources.at[0]) + at, result);
#pragma unroll 4
  for (int j = 1; j < sources.count; ++j) {
    A other[N];
    load_run<N>(static_cast<const T*>(sources.at[j]) + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = combine(result[i], other[i]);
  }
  store_run<N>(y + at, result);
}

/// y[i] = the sources combined in their order. y may alias a source. `packed`: all addresses are aligned.
template <class T, class Combine>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_sources(ReducedSources sources, Combine combine, std::int64_t size, bool packed, T* y) {
  constexpr int kRun = kRunLength<T>;
  const std::int64_t in_runs = packed ? size - size % kRun : 0;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kReduceThreads + threadIdx.x) * kRun;
  if (at < in_runs) reduce_run<kRun>(sources, combine, at, y);
  for_each_single(in_runs, size, [&](std::int64_t i) { reduce_run<1>(sources, combine, i, y); });
}

}  // namespace strata::cuda
