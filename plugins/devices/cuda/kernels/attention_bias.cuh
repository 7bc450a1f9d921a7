#pragma once

#include "kernels/attention_mask.cuh"
#include "kernels/attention_shape.cuh"
#include "language/language.hpp"

namespace strata::cuda {

/// The element of a head's bias for a query and a key at global positions.
[[nodiscard]] __device__ __forceinline__ std::int64_t bias_element(const AttentionShape& shape, std::int64_t query,
                                                                   std::int64_t key) {
  return key - query + shape.query_positions.global_size - 1;
}

/// Number of elements of a head's bias.
[[nodiscard]] __host__ __device__ inline std::int64_t bias_elements(const AttentionShape& shape) {
  return shape.query_positions.global_size + shape.key_positions.global_size - 1;
}

/// True if `count` local indices from `first` on are there, and their positions are neighbours.
[[nodiscard]] __device__ __forceinline__ bool are_neighbours(const DimIndexMap& map, int first, int count) {
  const IndexRun& run = map.run_of(first);
  return first + count <= run.local_begin + run.length;
}

/// Adds the bias T[heads][distance] to a tile of scores that are not yet scaled. Keys past the end get that of the last
/// one, and queries past the end none, because their scores must stay 0. Does nothing if there is no bias.
template <Rows Meaning, int Queries, int Keys, class T, class Scores>
__device__ __forceinline__ void add_bias(Scores& scores, const AttentionShape& shape, int head, int first_query,
                                         int first_key) {
  if (shape.bias == nullptr) return;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
  const DimIndexMap& queries = shape.query_positions;
  const DimIndexMap& keys = shape.key_positions;
  const T* bias = static_cast<const T*>(shape.bias) + head * bias_elements(shape);
  const auto unscaled = shape.inverse_scale.template as<typename Scores::Real>();
  if (are_neighbours(queries, first_query, Queries) && are_neighbours(keys, first_key, Keys)) {
    // Addresses are at constant distances from that of the thread's first score.
    constexpr int kSign = kQueryRows ? 1 : -1;
    const T* own = bias + bias_element(shape, queries.global_index(first_query), keys.global_index(first_key)) +
                   kSign * (Scores::column(0) - Scores::row(0));
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) {
        const int further = (Scores::column(c) - Scores::column(0)) - (Scores::row(r) - Scores::row(0));
        scores.at(r, c) += widen(own[kSign * further]) * unscaled;
      }
    }
    return;
  }
  const auto position = [&](int index, bool is_query) {
    return is_query ? queries.global_index(min(first_query + index, shape.queries - 1))
                    : keys.global_index(min(first_key + index, shape.keys - 1));
  };
  std::int64_t rows[Scores::kRows];
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) rows[r] = position(recomputed(Scores::row(r)), kQueryRows);
#pragma unroll
  for (int c = 0; c < Scores::kColumns; ++c) {
    const std::int64_t column = position(recomputed(Scores::column(c)), !kQueryRows);
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      if (first_query + (kQueryRows ? Scores::row(r) : Scores::column(c)) >= shape.queries) continue;
      const std::int64_t element =
          kQueryRows ? bias_element(shape, rows[r], column) : bias_element(shape, column, rows[r]);
      scores.at(r, c) += widen(bias[element]) * unscaled;
    }
  }
}

// The gradient of the bias is the sum of the gradients of scores at the same distance. Each block of queries has its
// own sum for each distance, in global memory. A second kernel adds up those of all blocks.

/// The block's sums out of those of [head, sample, tile of queries, distance], set to 0. The next barrier shows this to
/// all threads. Grid: tiles of queries, heads, samples.
template <int Threads, class Real>
[[nodiscard]] __device__ __forceinline__ Real* clear_bias_sums(Real* sums, const AttentionShape& shape) {
  const std::int64_t elements = bias_elements(shape);
  sums += ((std::int64_t{blockIdx.y} * gridDim.z + blockIdx.z) * gridDim.x + blockIdx.x) * elements;
  for (std::int64_t i = threadIdx.x; i < elements; i += Threads) sums[i] = 0;
  return sums;
}

/// Neighbouring rows or columns of a tile whose positions are neighbours, too.
struct TileRun {
  int begin;
  int end;
  /// The global position of `begin`.
  std::int64_t position;
};

/// The run from row or column `begin` on, of a tile of `count` that starts at the local index `first`.
[[nodiscard]] __device__ __forceinline__ TileRun tile_run(const DimIndexMap& map, int first, int begin, int count) {
  const IndexRun& run = map.run_of(first + begin);
  const std::int64_t length = run.local_begin + run.length - first;
  return {begin, static_cast<int>(min(length, std::int64_t{count})), map.global_index(first + begin)};
}

/// Sums the diagonals of a run of queries by a run of keys. All scores of a diagonal have the same distance, to whose
/// sum it is added. gradient(row, column) is the gradient of a score. sums[0] is for the first query and key.
template <int Threads, class Real, class Gradient>
__device__ __forceinline__ void add_diagonals(Real* sums, const TileRun& queries, const TileRun& keys,
                                              const Gradient& gradient) {
  const int rows = queries.end - queries.begin;
  const int columns = keys.end - keys.begin;
  for (int distance = static_cast<int>(threadIdx.x) + 1 - rows; distance < columns; distance += Threads) {
    const int end = min(rows, columns - distance);
    Real sum = 0;
#pragma unroll 8
    for (int row = max(0, -distance); row < end; ++row) {
      sum += gradient(queries.begin + row, keys.begin + row + distance);
    }
    sums[distance] += sum;
  }
}

/// Adds the gradients of a tile of scores to the block's sums. One thread adds all of a distance, so the order of sums
/// is fixed. `staging`: shared memory for the tile, which the block no longer needs. Rows are queries. All threads of
/// the block take part.
template <int Threads, int Queries, int Keys, class Scores>
__device__ __forceinline__ void add_bias_gradient(typename Scores::Real* sums, typename Scores::Real* staging,
                                                  const Scores& gradients, const AttentionShape& shape, int first_query,
                                                  int first_key) {
  // Rows are rotated, so that lanes with scores of different rows write to different banks.
  const auto place = [](int row, int column) { return row * Keys + (column + 8 * row) % Keys; };
  __syncthreads();  // All threads have read what the memory held.
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) {
      staging[place(recomputed(Scores::row(r)), recomputed(Scores::column(c)))] = gradients.at(r, c);
    }
  }
  const int rows = min(Queries, shape.queries - first_query);
  const int columns = min(Keys, shape.keys - first_key);
  for (int row = 0; row < rows;) {
    const TileRun queries = tile_run(shape.query_positions, first_query, row, rows);
    for (int column = 0; column < columns;) {
      const TileRun keys = tile_run(shape.key_positions, first_key, column, columns);
      __syncthreads();  // The tile is written, and the sums of the last runs, which may have the same distances.
      add_diagonals<Threads>(sums + bias_element(shape, queries.position, keys.position), queries, keys,
                             [&](int i, int j) { return staging[place(i, j)]; });
      column = keys.end;
    }
    row = queries.end;
  }
}

}  // namespace strata::cuda
