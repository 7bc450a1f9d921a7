#pragma once

#include "kernels/attention_shape.cuh"
#include "language/recomputed.hpp"

/// \file
/// The mask of dropout for the probabilities of a tile, as bits in shared memory. One block of random words serves four
/// neighbouring keys of a query. No layout of scores in registers gives these four to one thread, so threads exchange
/// the bits through shared memory.

namespace strata::cuda {

/// Number of words with one query's bits in a tile, 32 keys per word.
template <int Keys>
inline constexpr int kKeptWords = Keys / 32;

/// The dropout bits of one head's probabilities.
class KeptBits {
 public:
  __device__ __forceinline__ KeptBits(const AttentionShape& shape, int sample, int head)
      : shape_(shape), key_(shape.dropout.stream.key()) {
    const AttentionDropout& dropout = shape.dropout;
    const std::int64_t global_head =
        dropout.samples.global_index(sample) * dropout.heads.global_size + dropout.heads.global_index(head);
    first_row_ = global_head * shape.query_positions.global_size;
  }

  /// Bit i is set if the probability of key `first_key` + i is kept.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t word(int query, int first_key) const {
    const DimIndexMap& keys = shape_.key_positions;
    const std::int64_t row = (first_row_ + shape_.query_positions.global_index(query)) * keys.global_size;
    const std::int64_t position = keys.global_index(first_key);
    if (keys.global_index(first_key + 31) == position + 31) return run(row + position);
    std::uint32_t kept = 0;
    for (int i = 0; i < 32; ++i) {
      const std::int64_t index = row + keys.global_index(first_key + i);
      kept |= (four(index / 4) >> (index % 4) & 1U) << i;
    }
    return kept;
  }

 private:
  /// Four bits from one block of random words.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t four(std::int64_t block) const {
    const RandomWords drawn = philox(key_, static_cast<std::uint64_t>(block));
    std::uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // An if statement, because GCC 12's shift sanitizer reads an unset i if the shifted number is this condition.
      if (drawn.words[i] >= shape_.dropout.threshold) kept |= 1U << i;
    }
    return kept;
  }

  /// The bits of 32 neighbours in the random stream.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t run(std::int64_t index) const {
    const int skipped = static_cast<int>(index % 4);
    const int blocks = skipped == 0 ? 8 : 9;
    std::uint64_t kept = 0;
#pragma unroll 1
    for (int i = 0; i < blocks; ++i) kept |= std::uint64_t{four(index / 4 + i)} << (4 * i);
    return static_cast<std::uint32_t>(kept >> skipped);
  }

  const AttentionShape& shape_;
  std::uint64_t key_;
  std::int64_t first_row_;
};

/// Draws the bits of a tile into kept[Queries][kKeptWords<Keys>]. All threads of the block take part.
template <int Threads, int Queries, int Keys>
__device__ __forceinline__ void draw_kept_bits(std::uint32_t* kept, const AttentionShape& shape, int sample, int head,
                                               int first_query, int first_key) {
  const KeptBits bits(shape, sample, head);
  constexpr int kWords = kKeptWords<Keys>;
  for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Queries * kWords; i += Threads) {
    const int query = first_query + i / kWords;
    const int key = first_key + i % kWords * 32;
    if (query < shape.queries && key < shape.keys) kept[i] = bits.word(query, key);
  }
}

/// True if the probability of a query and a key of the tile is kept.
template <int Keys>
__device__ __forceinline__ bool is_kept(const std::uint32_t* kept, int query, int key) {
  return (kept[query * kKeptWords<Keys> + key / 32] >> (key % 32) & 1U) != 0;
}

/// Sets dropped probabilities to zero. Rows are queries.
template <int Keys, class Scores>
__device__ __forceinline__ void drop(Scores& probabilities, const std::uint32_t* kept) {
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) {
      if (!is_kept<Keys>(kept, Scores::row(r), Scores::column(c))) probabilities.at(r, c) = 0;
    }
  }
}

}  // namespace strata::cuda
