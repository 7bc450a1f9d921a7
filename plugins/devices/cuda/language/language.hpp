#pragma once

/// \file
/// What every kernel is written in.

#include <cstdint>
#include <cstring>

#include "language/dialect.hpp"
#include "language/element.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/random.hpp"
#ifndef __CUDACC__
#include "strata/half.hpp"
#endif

namespace strata::cuda {

// Conversions between element types and the types that kernels compute in. All round to nearest, ties to even.

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float widen(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ __forceinline__ float widen(Float16 value) {
#ifdef __CUDACC__
  return __half2float(__ushort_as_half(value.bits));
#else
  return emulator::half_to_float(value.bits);
#endif
}

__device__ __forceinline__ BFloat16 to_bfloat16(float value) {
#ifdef __CUDACC__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  return {to_bf16(value)};
#endif
}

__device__ __forceinline__ Float16 to_float16(float value) {
#ifdef __CUDACC__
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {to_f16(value)};
#endif
}

/// Rounds a computed value, a float or a double, to an element.
template <class T, class Value>
__device__ __forceinline__ T narrow(Value value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Packs two neighbouring elements into the 32 bits of a matrix fragment. `low` is the element at the lower address.
template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  return narrow<T>(low).bits | static_cast<std::uint32_t>(narrow<T>(high).bits) << 16;
}

// Packs: runs of elements that one instruction loads or stores.

/// Number of elements in a 16-byte access.
template <class T>
inline constexpr int kPackedElements = static_cast<int>(16 / sizeof(T));

/// N neighbouring elements of 4, 8 or 16 bytes in total, aligned to that size.
template <class T, int N = kPackedElements<T>>
struct alignas(sizeof(T) * N) Packed {
  static_assert(sizeof(T) * N == 4 || sizeof(T) * N == 8 || sizeof(T) * N == 16);
  T values[N];

  __device__ __forceinline__ T& operator[](int index) { return values[index]; }
  __device__ __forceinline__ const T& operator[](int index) const { return values[index]; }
};

namespace detail {
template <class T, int N>
using WordOf = std::conditional_t<sizeof(T) * N == 4, unsigned, std::conditional_t<sizeof(T) * N == 8, uint2, uint4>>;
}  // namespace detail

/// Loads a pack with one instruction. `from` is aligned to the size of the pack.
template <class T, int N = kPackedElements<T>>
__device__ __forceinline__ Packed<T, N> load_packed(const T* from) {
  using Word = detail::WordOf<T, N>;
#ifndef __CUDACC__
  emulator::check_aligned(from, sizeof(Word));
#endif
  const Word word = *reinterpret_cast<const Word*>(from);
  Packed<T, N> result;
  memcpy(&result, &word, sizeof(word));
  return result;
}

/// Stores a pack with one instruction. `to` is aligned to the size of the pack.
template <class T, int N>
__device__ __forceinline__ void store_packed(T* to, const Packed<T, N>& values) {
  using Word = detail::WordOf<T, N>;
#ifndef __CUDACC__
  emulator::check_aligned(to, sizeof(Word));
#endif
  Word word;
  memcpy(&word, &values, sizeof(word));
  *reinterpret_cast<Word*>(to) = word;
}

/// True if packs of this size may be loaded from the address.
inline bool is_aligned(const void* address, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

// Arithmetic.

/// 2^exponent by the special function unit. The relative error is at most 2^-22. Subnormal results become 0.
__device__ __forceinline__ float fast_exp2(float exponent) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
#else
  return emulator::approximate_exp2(exponent);
#endif
}

__device__ __forceinline__ double fast_exp2(double exponent) { return exp2(exponent); }

__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }

/// Returns `value`, which must not be negative, and hides its origin from the compiler. Expressions of the result are
/// then recomputed in each iteration of a loop. Otherwise the compiler would hoist them and hold them in registers, of
/// which the loop has none left.
__device__ __forceinline__ int recomputed(int value) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(value));
  __builtin_assume(value >= 0);
#endif
  return value;
}

// Sums and maxima over a warp and a block. Every thread takes part and gets the same bits, because the order of
// additions depends only on the size of the block.

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullMask = 0xFFFFFFFFU;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The maximum of two numbers. NaN if either is NaN, so that no kernel hides it.
struct Maximum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

/// The thread's number in its block.
__device__ __forceinline__ int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ __forceinline__ int block_threads() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }

/// Reduces over groups of Width neighbouring lanes. Width is a power of two.
template <int Width = kWarpSize, class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int distance = Width / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kFullMask, value, distance));
  }
  return value;
}

/// The sum over such a group. T: float, double or an integer.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, Sum{});
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce(value, Maximum{});
}

/// The sum of the values of lanes 0 to this one.
template <class T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
  const int lane = thread_rank() % kWarpSize;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const T before = __shfl_up_sync(kFullMask, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

/// Reduces over a block of whole warps. Synchronises the block: when a thread returns, all threads have read the
/// partial results.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, T neutral, const Combine& combine) {
  __shared__ T partial[kWarpSize];
  const int warp = thread_rank() / kWarpSize;
  const int lane = thread_rank() % kWarpSize;
  value = warp_reduce(value, combine);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < block_threads() / kWarpSize ? partial[lane] : neutral, combine);
  __syncthreads();
  return value;
}

template <class T>
__device__ __forceinline__ T block_sum(T value) {
  return block_reduce(value, T{0}, Sum{});
}
template <class T>
__device__ __forceinline__ T block_max(T value) {
  return block_reduce(value, -static_cast<T>(INFINITY), Maximum{});
}

// Asynchronous copies from global to shared memory (cp.async), which overlap with the thread's work. A thread sees its
// own copies after wait_copies(). It sees other threads' copies after a barrier that follows their wait_copies().

/// Starts a copy of 4, 8 or 16 bytes between addresses that are aligned to as many. If `valid` is false, writes zeros
/// and does not read.
template <int Bytes = 16>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool valid = true) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  // Only copies of 16 bytes can pass by the first cache.
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(valid ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(Bytes),
                 "r"(valid ? Bytes : 0)
                 : "memory");
  }
#else
  emulator::copy_async(shared, global, Bytes, valid);
#endif
}

/// Closes the group of the copies started since the last call.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::commit_copies();
#endif
}

/// Returns when at most Pending of the thread's newest groups are in flight.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
  emulator::wait_copies(Pending);
#endif
}

/// The block's dynamic shared memory, with the size of the launch (Geometry::shared_bytes), aligned to 1024 bytes, as
/// warpgroups need it (in the emulator to 128).
template <class T = unsigned char>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) unsigned char strata_dynamic_shared[];
  return reinterpret_cast<T*>(strata_dynamic_shared);
#else
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory());
#endif
}

// The matrix units of a warp (mma.sync, ldmatrix; sm_80). All lanes take part. In a fragment, lane l holds the row
// l / 4 and the columns 2 (l % 4) and 2 (l % 4) + 1 of each 8 by 8 piece, two elements in 32 bits:
//   a[0..3]  A (16 by 16): rows 0-7, columns 0-7; rows 8-15, 0-7; rows 0-7, 8-15; rows 8-15, 8-15
//   b[0..1]  B (16 by 8), of which a lane has column l / 4: rows 0-7; rows 8-15
//   c, d     C and D (16 by 8) in f32: [0], [1] in rows 0-7, [2], [3] in rows 8-15

/// d = a · b + c. d may be c.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                             const float (&c)[4]) {
#ifdef __CUDACC__
  static_assert(std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>);
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
#else
  emulator::matrix_multiply_add(d, a, b, c, [](std::uint16_t bits) { return widen(T{bits}); });
#endif
}

/// Loads four 8 by 8 pieces from shared memory: lanes 8 i to 8 i + 7 give the addresses of the rows of piece i, 16
/// bytes each and aligned to as many.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&pieces)[4], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, row, false);
#endif
}

/// As ldmatrix_x4, every piece transposed: lanes still give the addresses of rows as they lie in memory.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&pieces)[4], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(address)
               : "memory");
#else
  emulator::load_matrices(pieces, row, true);
#endif
}

// The random words of strata/random.hpp, computed by kernels. The host library has its own implementation.

/// The four words of one block of a random stream.
struct RandomWords {
  std::uint32_t words[4];
};

/// Same as random::philox4x32(key, block).
__host__ __device__ __forceinline__ RandomWords philox(std::uint64_t key, std::uint64_t block) {
  std::uint32_t c0 = static_cast<std::uint32_t>(block);
  std::uint32_t c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// Same as random::word(key, index). To use neighbouring words too, draw their block once with philox().
__host__ __device__ __forceinline__ std::uint32_t random_word(std::uint64_t key, std::uint64_t index) {
  const RandomWords random = philox(key, index / 4);
  // Select the word by conditions. An array that is indexed by a variable would be in memory instead of registers.
  const std::uint32_t of_lower_pair = (index & 1U) == 0 ? random.words[0] : random.words[1];
  const std::uint32_t of_upper_pair = (index & 1U) == 0 ? random.words[2] : random.words[3];
  return (index & 2U) == 0 ? of_lower_pair : of_upper_pair;
}

/// The random numbers of one op in the current step.
struct RandomStream {
  /// Result of random::stream_base().
  std::uint64_t base = 0;
  const StepValues* step = nullptr;

  /// Same as random::stream_key().
  [[nodiscard]] __device__ __forceinline__ std::uint64_t key() const {
    return random::step_key(base, __ldg(&step->step));
  }
};

}  // namespace strata::cuda
