#pragma once

#include <cstdint>

#include "language/language.hpp"

/// \file
/// A stable radix sort of pairs by key, from the lowest digit on. A pass over a digit has three steps. It counts the
/// digits of every block. It sums the counts to find where each digit of each block starts. It moves every pair there.
/// The work of a pass grows only with the number of pairs. The order of the pairs does not depend on timing.

namespace strata::cuda {

/// Pairs per block, one per thread.
inline constexpr int kSortThreads = 256;
inline constexpr int kSortWarps = kSortThreads / kWarpSize;
inline constexpr int kDigitBits = 8;
inline constexpr int kDigits = 1 << kDigitBits;
inline constexpr int kScanThreads = 1024;
static_assert(kDigits == kSortThreads, "a thread has one digit of the block's counts");

/// Pairs in device memory: equally many keys and values. Keys are not negative.
struct SortPairs {
  int* keys;
  int* values;
};

/// Number of passes that sort keys from 0 to `largest`.
inline int passes_for(std::int64_t largest) {
  int passes = 1;
  while ((largest >>= kDigitBits) > 0) ++passes;
  return passes;
}

__device__ __forceinline__ int digit_of(int key, int pass) { return key >> (pass * kDigitBits) & (kDigits - 1); }

__device__ __forceinline__ std::int64_t pair_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
}

/// The sum of the values of lanes 0 to this one.
__device__ __forceinline__ int warp_inclusive_sum(int value, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int before = __shfl_up_sync(kFullMask, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

/// The lanes that have a pair with this lane's digit.
__device__ __forceinline__ unsigned lanes_with_digit(int digit, bool has_pair) {
  unsigned lanes = __ballot_sync(kFullMask, has_pair);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(kFullMask, is_set);
    lanes &= is_set ? set : ~set;
  }
  return lanes;
}

/// Stores the number of pairs with each digit in counts[digit, block].
static __global__ void __launch_bounds__(kSortThreads)
    count_digits(std::int64_t count, int pass, const int* keys, int* counts) {
  __shared__ int of_block[kDigits];
  of_block[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t i = pair_of_thread();
  if (i < count) atomicAdd(&of_block[digit_of(keys[i], pass)], 1);
  __syncthreads();
  counts[static_cast<std::int64_t>(threadIdx.x) * gridDim.x + blockIdx.x] = of_block[threadIdx.x];
}

/// Replaces each count by the sum of all earlier counts. Runs as one block.
static __global__ void __launch_bounds__(kScanThreads) add_up_counts(std::int64_t count, int* counts) {
  __shared__ int of_warps[kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int before = 0;
  for (std::int64_t begin = 0; begin < count; begin += kScanThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const int own = i < count ? counts[i] : 0;
    int sum = warp_inclusive_sum(own, lane);
    if (lane == kWarpSize - 1) of_warps[warp] = sum;
    __syncthreads();
    if (warp == 0) of_warps[lane] = warp_inclusive_sum(of_warps[lane], lane);
    __syncthreads();
    if (warp > 0) sum += of_warps[warp - 1];
    if (i < count) counts[i] = before + sum - own;
    before += of_warps[kWarpSize - 1];
    __syncthreads();
  }
}

/// Moves every pair to its place in `to`. begins[digit, block]: the start of the block's pairs with that digit. Pairs
/// with the same digit keep their order.
static __global__ void __launch_bounds__(kSortThreads)
    place_pairs(std::int64_t count, int pass, SortPairs from, const int* begins, SortPairs to) {
  __shared__ int of_warp[kSortWarps][kDigits];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
  for (int each = 0; each < kSortWarps; ++each) of_warp[each][threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t i = pair_of_thread();
  const bool has_pair = i < count;
  const int key = has_pair ? from.keys[i] : 0;
  const int digit = digit_of(key, pass);
  const unsigned lanes = lanes_with_digit(digit, has_pair);
  const int earlier = __popc(lanes & ((1U << lane) - 1));
  if (has_pair && earlier == 0) of_warp[warp][digit] = __popc(lanes);
  __syncthreads();
  if (!has_pair) return;
  int place = begins[static_cast<std::int64_t>(digit) * gridDim.x + blockIdx.x] + earlier;
  for (int each = 0; each < warp; ++each) place += of_warp[each][digit];
  to.keys[place] = key;
  to.values[place] = from.values[i];
}

}  // namespace strata::cuda
