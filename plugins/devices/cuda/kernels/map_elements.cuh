#pragma once

#include "kernels/element_run.cuh"

/// \file
/// y[i] = function(x0[i], x1[i], ...), the form of all elementwise ops.

namespace strata::cuda {

inline constexpr int kMapThreads = 256;
/// Runs per thread. Their loads are in flight at the same time.
inline constexpr int kMapRuns = 2;

/// Elements per block.
template <class... T>
inline constexpr int kMapTile = kMapThreads* kMapRuns* kRunLength<T...>;

/// Holds one run of every operand.
template <int N, class Value, class... Operands>
struct OperandRuns {
  __device__ __forceinline__ void load(std::int64_t /*at*/) {}

  template <class Function, class... Values>
  __device__ __forceinline__ Value call(const Function& function, int /*i*/, Values... x) const {
    return function(x...);
  }
};
template <int N, class Value, class First, class... Rest>
struct OperandRuns<N, Value, First, Rest...> {
  ElementRun<First, N> first;
  OperandRuns<N, Value, Rest...> rest;

  __device__ __forceinline__ void load(std::int64_t at, const First* from, const Rest*... others) {
    first.load(from + at);
    rest.load(at, others...);
  }

  /// function(x..., element i of every operand)
  template <class Function, class... Values>
  __device__ __forceinline__ Value call(const Function& function, int i, Values... x) const {
    return rest.call(function, i, x..., to_computed<Value>(first[i]));
  }
};

/// `function` takes and returns Computed<Result, Operands...>. The result may alias an operand. `packed`: all addresses
/// are aligned.
template <class Function, class Result, class... Operands>
__global__ void __launch_bounds__(kMapThreads)
    map_elements(Function function, std::int64_t size, bool packed, Result* y, const Operands*... x) {
  using Value = Computed<Result, Operands...>;
  constexpr int kRun = kRunLength<Result, Operands...>;
  OperandRuns<kRun, Value, Operands...> runs[kMapRuns];
  const std::int64_t tile = std::int64_t{blockIdx.x} * kMapTile<Result, Operands...>;
  const auto place = [&](int k) { return tile + (k * kMapThreads + static_cast<int>(threadIdx.x)) * kRun; };
  const std::int64_t in_runs = packed ? size - size % kRun : 0;
#pragma unroll
  for (int k = 0; k < kMapRuns; ++k) {
    if (place(k) < in_runs) runs[k].load(place(k), x...);
  }
#pragma unroll
  for (int k = 0; k < kMapRuns; ++k) {
    if (place(k) >= in_runs) continue;
    Value values[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) values[i] = runs[k].call(function, i);
    store_run<kRun>(y + place(k), values);
  }
  for_each_single(in_runs, size,
                  [&](std::int64_t i) { y[i] = to_element<Result>(function(to_computed<Value>(x[i])...)); });
}

/// Adapts `Function` for an op that adds to its result. The first operand is the old result.
template <class Function>
struct AddTo {
  Function function;

  template <class Value, class... Values>
  __device__ __forceinline__ Value operator()(Value before, Values... x) const {
    return before + function(x...);
  }
};

}  // namespace strata::cuda
