#pragma once

#include "language/language.hpp"

/// \file
/// The choices of tokens, sorted by expert: for each, its token and gate. Their number is known on the device only, so
/// grids have as many blocks as the planned number of choices may need, and blocks look up their tile of choices.

namespace strata::cuda {

/// Sizes of an op on experts.
struct ExpertShape {
  std::int64_t tokens;
  std::int64_t width;    // of the stream
  std::int64_t experts;  // of this rank
  std::int64_t inner;
};

/// Neighbouring choices of one expert.
struct Segment {
  int expert;
  int begin;
  int end;
};

/// The choices of all tokens, ordered by expert and then by token. V: the type of gates.
template <class V>
struct Choices {
  /// How many choices there is room for.
  int capacity;
  /// An expert's choices are those from offsets[expert] to offsets[expert + 1]. Behind them is how many choices the
  /// tokens have, which may be more than `capacity`.
  int* offsets;
  /// The token of each choice.
  int* token_of;
  /// The gate of each choice.
  V* gates;
  /// [tokens, experts]: the number of the choice, or -1.
  int* choice_of;
  /// The choices in tiles. The last tiles are empty.
  Segment* tiles;
  int tile_count;
};

/// Choices are counted and listed by blocks that have kListTokens tokens. Each warp has some of the experts.
constexpr int kListTokens = 256;
constexpr int kListThreads = 256;

/// The gate of an expert for the lane's token. A warp has 32 tokens, from the block's token `first` on.
template <class V, class G>
struct LaneGate {
  std::int64_t token;
  V gate;
  /// Bits of the lanes whose tokens choose the expert.
  unsigned chosen;

  __device__ __forceinline__ LaneGate(const ExpertShape& shape, const G* gates, std::int64_t expert, int first)
      : token(std::int64_t{blockIdx.x} * kListTokens + first + threadIdx.x % kWarpSize) {
    gate = token < shape.tokens ? static_cast<V>(widen(gates[token * shape.experts + expert])) : V{0};
    chosen = __ballot_sync(kFullMask, gate != 0);
  }
};

/// counts[expert, block] = how many of the block's tokens choose the expert.
template <class V, class G>
__global__ void count_choices(ExpertShape shape, const G* gates, int* counts) {
  for (std::int64_t expert = threadIdx.x / kWarpSize; expert < shape.experts; expert += kListThreads / kWarpSize) {
    int count = 0;
    for (int i = 0; i < kListTokens; i += kWarpSize) count += __popc(LaneGate<V, G>(shape, gates, expert, i).chosen);
    if (threadIdx.x % kWarpSize == 0) counts[expert * gridDim.x + blockIdx.x] = count;
  }
}

/// Calls put(i, get(0) + … + get(i - 1)) for i of [0, count). \return the sum of all. The block has kListThreads
/// threads, which see each other's writes when the function returns.
template <class Get, class Put>
__device__ __forceinline__ int add_before(int count, const Get& get, const Put& put) {
  constexpr int kWarps = kListThreads / kWarpSize;
  __shared__ int sums_of_warps[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int run = (count + kListThreads - 1) / kListThreads;
  const int begin = thread * run;
  const int end = begin + run < count ? begin + run : count;
  int own = 0;
  for (int i = begin; i < end; ++i) own += get(i);
  const int sum = warp_inclusive_sum(own);
  if (thread % kWarpSize == kWarpSize - 1) sums_of_warps[thread / kWarpSize] = sum;
  __syncthreads();
  int before = sum - own;
  int total = 0;
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < thread / kWarpSize) before += sums_of_warps[warp];
    total += sums_of_warps[warp];
  }
  for (int i = begin; i < end; ++i) {
    const int value = get(i);
    put(i, before);
    before += value;
  }
  __syncthreads();
  return total;
}

/// Turns counts[expert, block] into the number of the first choice of each, and divides the choices of experts into
/// tiles of `side`. One block.
template <class V>
__global__ void place_choices(int experts, int blocks, int side, int* counts, Choices<V> choices) {
  const int total = add_before(
      experts * blocks, [&](int i) { return counts[i]; },
      [&](int i, int before) {
        counts[i] = before;
        if (i % blocks == 0) choices.offsets[i / blocks] = before < choices.capacity ? before : choices.capacity;
      });
  if (threadIdx.x == 0) {
    choices.offsets[experts] = total < choices.capacity ? total : choices.capacity;
    choices.offsets[experts + 1] = total;
  }
  __syncthreads();
  const auto tiles_of = [&](int expert) {
    return (choices.offsets[expert + 1] - choices.offsets[expert] + side - 1) / side;
  };
  const int tiles = add_before(experts, tiles_of, [&](int expert, int tile) {
    const int end = choices.offsets[expert + 1];
    for (int begin = choices.offsets[expert]; begin < end; begin += side) {
      choices.tiles[tile++] = {expert, begin, begin + side < end ? begin + side : end};
    }
  });
  for (int i = tiles + static_cast<int>(threadIdx.x); i < choices.tile_count; i += kListThreads) {
    choices.tiles[i] = {0, 0, 0};
  }
}

/// Lists the choices. first[expert, block]: the number of the block's first choice of the expert.
template <class V, class G>
__global__ void list_choices(ExpertShape shape, const G* gates, const int* first, Choices<V> choices) {
  const unsigned lower_lanes = (1U << threadIdx.x % kWarpSize) - 1;
  for (std::int64_t expert = threadIdx.x / kWarpSize; expert < shape.experts; expert += kListThreads / kWarpSize) {
    int next = first[expert * gridDim.x + blockIdx.x];
    for (int i = 0; i < kListTokens; i += kWarpSize) {
      const LaneGate<V, G> of(shape, gates, expert, i);
      const int choice = next + __popc(of.chosen & lower_lanes);
      next += __popc(of.chosen);
      if (of.token >= shape.tokens) continue;
      const bool is_listed = of.gate != 0 && choice < choices.capacity;
      choices.choice_of[of.token * shape.experts + expert] = is_listed ? choice : -1;
      if (!is_listed) continue;
      choices.token_of[choice] = static_cast<int>(of.token);
      choices.gates[choice] = of.gate;
    }
  }
}

}  // namespace strata::cuda
