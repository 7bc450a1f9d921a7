#pragma once

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"

namespace strata::cuda {

// y[i] = function(x0[i], x1[i], ...), the form of all elementwise ops.

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

/// y = function(x...), or y += function(x...) with `accumulate`. `function` takes and returns Computed<Result,
/// Operands...>. The result may alias an operand. `packed`: all addresses are aligned.
template <class Function, class Result, class... Operands>
__global__ void __launch_bounds__(kMapThreads)
    map_elements(Function function, std::int64_t size, bool packed, bool accumulate, Result* y, const Operands*... x) {
  using Value = Computed<Result, Operands...>;
  constexpr int kRun = kRunLength<Result, Operands...>;
  OperandRuns<kRun, Value, Operands...> runs[kMapRuns];
  ElementRun<Result, kRun> before[kMapRuns];
  const std::int64_t tile = std::int64_t{blockIdx.x} * kMapTile<Result, Operands...>;
  const auto place = [&](int k) { return tile + (k * kMapThreads + static_cast<int>(threadIdx.x)) * kRun; };
  const std::int64_t in_runs = packed ? size - size % kRun : 0;
#pragma unroll
  for (int k = 0; k < kMapRuns; ++k) {
    if (place(k) >= in_runs) continue;
    runs[k].load(place(k), x...);
    if (accumulate) before[k].load(y + place(k));
  }
#pragma unroll
  for (int k = 0; k < kMapRuns; ++k) {
    if (place(k) >= in_runs) continue;
    Value values[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      values[i] = runs[k].call(function, i);
      if (accumulate) values[i] = to_computed<Value>(before[k][i]) + values[i];
    }
    store_run<kRun>(y + place(k), values);
  }
  for_each_single(in_runs, size, [&](std::int64_t i) {
    const Value value = function(to_computed<Value>(x[i])...);
    y[i] = to_element<Result>(accumulate ? to_computed<Value>(y[i]) + value : value);
  });
}

/// y[i] (+)= function(x0[i], x1[i], ...). The result may be one of the operands.
template <class Function, class Result, class... Operands>
void launch_map(Stream stream, std::int64_t size, bool accumulate, const Function& function, Result* y,
                const Operands*... x) {
  const Geometry geometry{{blocks_for(size, kMapTile<Result, Operands...>)}, {kMapThreads}};
  launch(map_elements<Function, Result, Operands...>, geometry, stream, function, size, are_aligned(y, x...),
         accumulate, y, x...);
}

/// y (+)= function(operands of the op). Operands lists the operands' types.
template <class Result, class... Operands, class Function>
LaunchFunction map_operands(const OpInstance& op, const Function& function) {
  return [function, size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto map = [&]<std::size_t... I>(std::index_sequence<I...> /*operands*/) {
      launch_map(arguments.stream, size, accumulate, function, out<Result>(arguments, 0),
                 in<Operands>(arguments, I)...);
    };
    map(std::index_sequence_for<Operands...>{});
  };
}

}  // namespace strata::cuda
