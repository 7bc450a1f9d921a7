#pragma once

#include "kernels/quantization.cuh"

namespace strata::cuda {

inline constexpr int kDequantizeThreads = 256;
/// Numbers per thread. As 8-bit or 4-bit integers they take 16 or 8 bytes.
inline constexpr int kDequantizeRun = 16;

__device__ __forceinline__ int lower_half(std::int8_t byte) {
  return static_cast<std::int8_t>(static_cast<std::uint8_t>(byte) << 4) >> 4;
}
__device__ __forceinline__ int upper_half(std::int8_t byte) { return byte >> 4; }

/// Loads N integers at `from`. N is even.
template <int N>
__device__ __forceinline__ void load_integers(const std::int8_t* from, int bits, int (&integers)[N]) {
  if (bits == 8) {
    std::int8_t bytes[N];
    load_run<N>(from, bytes);
#pragma unroll
    for (int i = 0; i < N; ++i) integers[i] = bytes[i];
  } else {
    std::int8_t bytes[N / 2];
    load_run<N / 2>(from, bytes);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      integers[2 * i] = lower_half(bytes[i]);
      integers[2 * i + 1] = upper_half(bytes[i]);
    }
  }
}

/// Loads number i of a run that starts at `from`.
__device__ __forceinline__ int load_integer(const std::int8_t* from, int bits, std::int64_t i) {
  if (bits == 8) return from[i];
  const std::int8_t byte = from[i / 2];
  return i % 2 == 0 ? lower_half(byte) : upper_half(byte);
}

/// Sums N numbers of one block over the sources, starting at number `begin` of run `run`.
template <int N, class A>
__device__ __forceinline__ void sum_dequantized(const QuantizedShape& shape, std::int64_t run, std::int64_t begin,
                                                const std::int8_t* integers, const A* scales, A (&sums)[N]) {
  const std::int64_t block = begin / shape.block;
  for (std::int64_t source = 0; source < shape.sources; ++source) {
    const std::int64_t from = source * shape.runs + run;
    const A scale = scales[from * shape.blocks_of_run + block];
    const std::int8_t* bytes = integers + from * shape.bytes(shape.length);
    int numbers[N];
    if constexpr (N == 1) {
      numbers[0] = load_integer(bytes, shape.bits, begin);
    } else {
      load_integers(bytes + shape.bytes(begin), shape.bits, numbers);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += static_cast<A>(numbers[i]) * scale;
  }
}

/// y (+)= the sum of the sources. `packed`: the sizes of runs and blocks are multiples of kDequantizeRun, and addresses
/// are aligned.
template <class T, class A>
__global__ void __launch_bounds__(kDequantizeThreads)
    dequantize_blocks(QuantizedShape shape, bool packed, bool accumulate, const std::int8_t* integers, const A* scales,
                      T* y) {
  const auto dequantize = [&]<int N>(std::integral_constant<int, N> /*numbers*/, std::int64_t at) {
    if (at >= shape.runs * shape.length) return;
    const std::int64_t run = at / shape.length;
    A sums[N] = {};
    sum_dequantized(shape, run, at - run * shape.length, integers, scales, sums);
    if (accumulate) {
      A before[N];
      load_run<N>(y + at, before);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += before[i];
    }
    store_run<N>(y + at, sums);
  };
  const std::int64_t index = std::int64_t{blockIdx.x} * kDequantizeThreads + threadIdx.x;
  if (packed) {
    dequantize(std::integral_constant<int, kDequantizeRun>{}, index * kDequantizeRun);
  } else {
    dequantize(std::integral_constant<int, 1>{}, index);
  }
}

}  // namespace strata::cuda
