#include <algorithm>
#include <iterator>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"
#include "strata/internal/quantization.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::cuda {

// Block-wise quantisation. strata/internal/quantization.hpp defines all bits of integers and scales.

/// The runs of numbers and their quantisation. Plain data, passed to kernels by value.
struct QuantizedShape {
  int bits = 8;
  std::int64_t block = 256;
  std::int64_t length = 0;  ///< numbers per run
  std::int64_t runs = 0;
  std::int64_t sources = 1;
  std::int64_t blocks_of_run = 0;

  [[nodiscard]] __host__ __device__ std::int64_t bytes(std::int64_t numbers) const { return (numbers * bits + 7) / 8; }
  [[nodiscard]] __host__ __device__ int largest() const { return (1 << (bits - 1)) - 1; }
};

inline constexpr int kQuantizeThreads = 256;
inline constexpr int kQuantizeWarps = kQuantizeThreads / kWarpSize;
/// Numbers that a lane quantises at once. As 8-bit or 4-bit integers they take 8 or 4 bytes.
inline constexpr int kQuantizeRun = 8;

/// The scale of a block. It is never denormal.
template <class A>
__device__ __forceinline__ A smallest_scale() {
  if constexpr (std::is_same_v<A, double>) {
    return 0x1p-1022;
  } else {
    return 0x1p-126F;
  }
}

/// Rounds to the nearest integer, ties to even.
__device__ __forceinline__ int nearest_integer(float x) { return __float2int_rn(x); }
__device__ __forceinline__ int nearest_integer(double x) { return __double2int_rn(x); }

/// The largest magnitude of a block, equal in all lanes. NaN if one of the numbers is NaN.
template <class T>
__device__ __forceinline__ Accumulate<T> greatest_magnitude(const T* x, std::int64_t length, bool packed, int lane) {
  using A = Accumulate<T>;
  A greatest = 0;
  const auto take = [&](A value) { greatest = Maximum{}(greatest, value < 0 ? -value : value); };
  const std::int64_t in_runs = packed ? length / kQuantizeRun * kQuantizeRun : 0;
  for (std::int64_t i = lane * kQuantizeRun; i < in_runs; i += kWarpSize * kQuantizeRun) {
    A values[kQuantizeRun];
    load_run<kQuantizeRun>(x + i, values);
#pragma unroll
    for (const A value : values) take(value);
  }
#pragma unroll 1
  for (std::int64_t i = in_runs + lane; i < length; i += kWarpSize) take(to_computed<A>(x[i]));
  return warp_max(greatest);
}

template <class A>
__device__ __forceinline__ A scale_of(A greatest, int largest) {
  if (!(greatest < static_cast<A>(INFINITY))) return static_cast<A>(NAN);
  const A wanted = greatest / static_cast<A>(largest);
  return wanted > smallest_scale<A>() ? wanted : smallest_scale<A>();
}

/// Quantises a number. Returns 0 if the scale is NaN.
template <class A>
__device__ __forceinline__ int quantize_number(A x, A scale) {
  return scale == scale ? nearest_integer(x / scale) : 0;
}

__device__ __forceinline__ std::int8_t pack_halves(int lower, int upper) {
  return static_cast<std::int8_t>((lower & 0xF) | (upper & 0xF) << 4);
}

template <class T, class A>
__device__ __forceinline__ void quantize_run(const T* x, A scale, int bits, std::int8_t* to) {
  A values[kQuantizeRun];
  load_run<kQuantizeRun>(x, values);
  std::int8_t integers[kQuantizeRun];
#pragma unroll
  for (int i = 0; i < kQuantizeRun; ++i) integers[i] = static_cast<std::int8_t>(quantize_number(values[i], scale));
  if (bits == 8) return store_run<kQuantizeRun>(to, integers);
  std::int8_t halves[kQuantizeRun / 2];
#pragma unroll
  for (int i = 0; i < kQuantizeRun / 2; ++i) halves[i] = pack_halves(integers[2 * i], integers[2 * i + 1]);
  store_run<kQuantizeRun / 2>(to, halves);
}

/// Quantises with one warp per quantised block. `packed`: runs and blocks are multiples of kQuantizeRun, and addresses
/// are aligned.
template <class T>
__global__ void __launch_bounds__(kQuantizeThreads)
    quantize_blocks(QuantizedShape shape, bool packed, const T* x, std::int8_t* integers, Accumulate<T>* scales) {
  using A = Accumulate<T>;
  const std::int64_t index = std::int64_t{blockIdx.x} * kQuantizeWarps + threadIdx.x / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if (index >= shape.runs * shape.blocks_of_run) return;
  const std::int64_t run = index / shape.blocks_of_run;
  const std::int64_t begin = (index - run * shape.blocks_of_run) * shape.block;
  const std::int64_t length = begin + shape.block < shape.length ? shape.block : shape.length - begin;
  const T* from = x + run * shape.length + begin;
  std::int8_t* to = integers + run * shape.bytes(shape.length) + shape.bytes(begin);

  const A scale = scale_of(greatest_magnitude(from, length, packed, lane), shape.largest());
  if (lane == 0) scales[index] = scale;
  const std::int64_t in_runs = packed ? length / kQuantizeRun * kQuantizeRun : 0;
  for (std::int64_t i = lane * kQuantizeRun; i < in_runs; i += kWarpSize * kQuantizeRun) {
    quantize_run(from + i, scale, shape.bits, to + shape.bytes(i));
  }
  const auto integer = [&](std::int64_t i) { return i < length ? quantize_number(to_computed<A>(from[i]), scale) : 0; };
  if (shape.bits == 8) {
#pragma unroll 1
    for (std::int64_t i = in_runs + lane; i < length; i += kWarpSize) to[i] = static_cast<std::int8_t>(integer(i));
  } else {
#pragma unroll 1
    for (std::int64_t i = in_runs + 2 * lane; i < length; i += 2 * kWarpSize) {
      to[i / 2] = pack_halves(integer(i), integer(i + 1));
    }
  }
}

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

namespace {

QuantizedShape shape_of(const OpInstance& op) {
  const QuantizedRuns runs = QuantizedRuns::from(op);
  return {runs.quantization.bits,
          runs.quantization.block,
          runs.length,
          runs.runs,
          runs.sources,
          runs.quantization.scales(runs.length)};
}

constexpr auto kQuantize = []<class T>(const OpInstance& op) -> PreparedKernel {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kQuantizeRun == 0 && (shape.runs == 1 || shape.length % kQuantizeRun == 0);
  return {[=](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    auto* integers = out<std::int8_t>(arguments, 0);
    const bool packed = in_runs && are_aligned(x, integers);
    launch(quantize_blocks<T>, {{blocks_for(shape.runs * shape.blocks_of_run, kQuantizeWarps)}, {kQuantizeThreads}},
           arguments.stream, shape, packed, x, integers, out<Accumulate<T>>(arguments, 1));
  }};
};

template <class T, class A>
PreparedKernel prepare_dequantize(const OpInstance& op) {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kDequantizeRun == 0 && shape.length % kDequantizeRun == 0;
  return {[=, accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto* integers = in<std::int8_t>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const bool packed = in_runs && are_aligned(integers, y);
    const std::int64_t of_block = kDequantizeThreads * (packed ? kDequantizeRun : 1);
    launch(dequantize_blocks<T, A>, {{blocks_for(shape.runs * shape.length, of_block)}, {kDequantizeThreads}},
           arguments.stream, shape, packed, accumulate, integers, in<A>(arguments, 1), y);
  }};
}

}  // namespace

inline constexpr int kWeightThreads = 256;

/// A weight [outer length inner] in blocks along `length`. See strata/internal/weight_blocks.hpp for the data format.
struct CodedWeight {
  bool is_nf4 = false;
  std::int64_t block = 64;
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
  /// Rows of codes and of scales for each of `outer`.
  std::int64_t code_rows = 1;
  std::int64_t scale_rows = 1;
};

/// The numbers of 4-bit codes.
struct NumberTable {
  float numbers[16];
};

/// y (+)= the weight. Each thread decodes one number. Threads that follow one another decode numbers that follow one
/// another in memory, so they read codes that do too.
template <class T, class A>
__global__ void __launch_bounds__(kWeightThreads)
    dequantize_weight(CodedWeight weight, NumberTable table, bool accumulate, const std::int8_t* codes, const A* scales,
                      T* y) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kWeightThreads + threadIdx.x;
  if (at >= weight.outer * weight.length * weight.inner) return;
  const std::int64_t row = at / weight.inner;
  const std::int64_t inner = at - row * weight.inner;
  const std::int64_t outer = row / weight.length;
  const std::int64_t index = row - outer * weight.length;
  const std::int64_t block = index / weight.block;
  std::int64_t byte = index;
  bool is_upper = false;
  if (weight.is_nf4) {
    const std::int64_t begin = block * weight.block;
    const std::int64_t rest = weight.length - begin;
    const std::int64_t half = ((rest < weight.block ? rest : weight.block) + 1) / 2;
    is_upper = index - begin >= half;
    byte = begin / 2 + index - begin - (is_upper ? half : 0);
  }
  const std::int8_t code = codes[(outer * weight.code_rows + byte) * weight.inner + inner];
  const A scale = scales[(outer * weight.scale_rows + block) * weight.inner + inner];
  A number;
  if (weight.is_nf4) {
    const unsigned bits = static_cast<std::uint8_t>(code);
    number = static_cast<A>(table.numbers[is_upper ? bits >> 4 : bits & 0xF]);
  } else {
    number = static_cast<A>(code) / static_cast<A>(127);
  }
  A value = number * scale;
  if (accumulate) value += to_computed<A>(y[at]);
  y[at] = to_element<T>(value);
}

namespace {

CodedWeight shape_of(const BlockedWeight& weight) {
  return {weight.blocks.code == WeightCode::nf4,
          weight.blocks.size,
          weight.outer,
          weight.length,
          weight.inner,
          weight.blocks.bytes(weight.length),
          weight.blocks.scales(weight.length)};
}

template <class T, class A>
PreparedKernel prepare(const OpInstance& op) {
  const BlockedWeight weight = BlockedWeight::from(op);
  NumberTable table{};
  std::copy(kNormalFloat4.begin(), kNormalFloat4.end(), std::begin(table.numbers));
  return {[=, shape = shape_of(weight), accumulate = op.accumulate](const KernelArguments& arguments) {
    launch(dequantize_weight<T, A>, {{blocks_for(weight.elements(), kWeightThreads)}, {kWeightThreads}},
           arguments.stream, shape, table, accumulate, in<std::int8_t>(arguments, 0), in<A>(arguments, 1),
           out<T>(arguments, 0));
  }};
}

}  // namespace

void register_quantization(Registration& registration) {
  add(registration, {"quantize_blocks", "r", "bf", false, QuantizedRuns::mismatch}, kQuantize);
  add(registration, {"dequantize_blocks", "bf", "r", true, QuantizedRuns::mismatch},
      []<class T>(const OpInstance& op) -> PreparedKernel {
        if (op.operands[1].dtype == DType::f64) return prepare_dequantize<T, double>(op);
        return prepare_dequantize<T, float>(op);
      });
  add(registration, {kDequantizeWeight, "bf", "r", true, BlockedWeight::mismatch},
      []<class T>(const OpInstance& op) -> PreparedKernel {
        if (op.operands[1].dtype == DType::f64) return prepare<T, double>(op);
        return prepare<T, float>(op);
      });
}

}  // namespace strata::cuda
