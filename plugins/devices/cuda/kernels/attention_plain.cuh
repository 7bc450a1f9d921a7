#pragma once

#include "kernels/attention_mask.cuh"
#include "kernels/attention_shape.cuh"
#include "kernels/attention_softmax.cuh"
#include "language/language.hpp"

namespace strata::cuda {

// Square tiles of a block of 16 by 16 threads, and their products, on ordinary arithmetic units. They serve f32 and
// f64, and widths that tensor cores do not support. Operands pass through shared memory in slices of columns, so that
// its size does not depend on the width.

inline constexpr int kPlainThreads = 256;
inline constexpr int kPlainSide = 16;
/// The largest width for which sums of rows fit the registers.
inline constexpr int kPlainWidth = 256;
/// Columns of a slice.
inline constexpr int kSlice = 32;

/// Rows of a tile. A thread has every sixteenth row.
template <class Real>
inline constexpr int kPlainRows = sizeof(Real) == 8 ? 32 : 64;

[[nodiscard]] __device__ __forceinline__ int plain_row() { return static_cast<int>(threadIdx.x) / kPlainSide; }
[[nodiscard]] __device__ __forceinline__ int plain_column() { return static_cast<int>(threadIdx.x) % kPlainSide; }

/// A thread's part of a matrix: every sixteenth row and column.
template <class RealType, int Columns>
struct PlainFragment {
  using Real = RealType;
  static constexpr int kRows = kPlainRows<Real> / kPlainSide;
  static constexpr int kColumns = Columns / kPlainSide;
  /// Number of lanes that share a row. They are neighbours.
  static constexpr int kLanesPerRow = kPlainSide;

  Real values[kRows][kColumns];

  [[nodiscard]] static __device__ __forceinline__ int row(int r) { return plain_row() + kPlainSide * r; }
  [[nodiscard]] static __device__ __forceinline__ int column(int c) { return plain_column() + kPlainSide * c; }
  [[nodiscard]] __device__ __forceinline__ Real& at(int r, int c) { return values[r][c]; }
  [[nodiscard]] __device__ __forceinline__ Real at(int r, int c) const { return values[r][c]; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) values[r][c] = 0;
    }
  }
  __device__ __forceinline__ void scale_row(int r, Real factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values[r][c] *= factor;
  }
};

/// Matrices of scores, and of sums of rows.
template <class Real>
using PlainScores = PlainFragment<Real, kPlainRows<Real>>;
template <class Real>
using PlainSum = PlainFragment<Real, kPlainWidth>;

/// A matrix in shared memory. Its rows start in different banks.
template <class Real, int Columns>
struct PlainTile {
  static constexpr int kPack = kPackedElements<Real>;
  static constexpr int kStride = Columns + kPack;
  static constexpr int kRows = kPlainRows<Real>;
  static constexpr std::size_t kBytes = std::size_t{kRows} * kStride * sizeof(Real);

  Real* elements;

  [[nodiscard]] __device__ __forceinline__ Real* row(int index) const { return elements + index * kStride; }
};

/// The shared memory of a block.
template <class Real>
struct PlainMemory {
  static constexpr int kRows = kPlainRows<Real>;
  using Slice = PlainTile<Real, kSlice>;
  using Square = PlainTile<Real, kRows>;

  Slice left;
  Slice right;
  /// A left factor.
  Square factor;
  /// Statistics of queries, used by gradients.
  QueryStatistic<Real>* statistics;
  TilePlaces<kRows>* query_places;
  TilePlaces<kRows>* key_places;
  std::uint32_t* kept;

  static constexpr std::size_t kStatisticsBytes = sizeof(QueryStatistic<Real>) * kRows;
  static constexpr std::size_t kKeptBytes = std::size_t{kRows} * (kRows / 32) * 4;
  static constexpr std::size_t kPlacesBytes = 2 * sizeof(TilePlaces<kRows>);
  static constexpr std::size_t kBytes =
      2 * Slice::kBytes + Square::kBytes + kStatisticsBytes + kPlacesBytes + kKeptBytes;

  __device__ __forceinline__ explicit PlainMemory(unsigned char* memory)
      : left{reinterpret_cast<Real*>(memory)},
        right{reinterpret_cast<Real*>(memory + Slice::kBytes)},
        factor{reinterpret_cast<Real*>(memory + 2 * Slice::kBytes)},
        statistics(reinterpret_cast<QueryStatistic<Real>*>(memory + 2 * Slice::kBytes + Square::kBytes)),
        query_places(reinterpret_cast<TilePlaces<kRows>*>(memory + kBytes - kKeptBytes - kPlacesBytes)),
        key_places(query_places + 1),
        kept(reinterpret_cast<std::uint32_t*>(memory + kBytes - kKeptBytes)) {}
};

/// Copies as many elements of a row as one load takes into shared memory.
template <class T, class Real>
__device__ __forceinline__ void load_pack(Real* to, const T* from, bool is_there) {
  constexpr int kPack = kPackedElements<Real>;
  Packed<T> elements{};
  if (is_there) elements = load_packed(from);
#pragma unroll
  for (int i = 0; i < kPackedElements<T>; i += kPack) {
    Packed<Real> wide;
#pragma unroll
    for (int j = 0; j < kPack; ++j) wide[j] = widen(elements[i + j]);
    store_packed(to + i, wide);
  }
}

/// Loads a slice of rows. Elements past the last row and column are zero.
template <class T, class Real>
__device__ __forceinline__ void load_slice(const PlainTile<Real, kSlice>& to, const HeadRows<const T>& rows, int first,
                                           int first_column) {
  const int elements = rows.is_aligned ? kPackedElements<T> : 1;  // elements per load
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * elements; i < kPlainRows<Real> * kSlice; i += kPlainThreads * elements) {
    const int row = first + i / kSlice;
    const int column = first_column + i % kSlice;
    const bool is_there = row < rows.count && column < rows.width;
    const T* from = rows.row(row) + column;
    Real* slice = to.row(i / kSlice) + i % kSlice;
    if (rows.is_aligned) {
      load_pack(slice, from, is_there);
    } else {
      *slice = is_there ? widen(*from) : Real{0};
    }
  }
}

/// The dot products of rows of two matrices.
template <class T, class Real>
__device__ __forceinline__ PlainScores<Real> multiply_transposed(const PlainMemory<Real>& memory,
                                                                 const HeadRows<const T>& a, int first_a,
                                                                 const HeadRows<const T>& b, int first_b) {
  using Scores = PlainScores<Real>;
  constexpr int kPack = kPackedElements<Real>;
  Scores scores;
  scores.clear();
  for (int slice = 0; slice < a.width; slice += kSlice) {
    __syncthreads();  // All threads have read the last slices.
    load_slice(memory.left, a, first_a, slice);
    load_slice(memory.right, b, first_b, slice);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kSlice; j += kPack) {
      Packed<Real> left[Scores::kRows];
#pragma unroll
      for (int r = 0; r < Scores::kRows; ++r) left[r] = load_packed(memory.left.row(Scores::row(r)) + j);
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) {
        const Packed<Real> right = load_packed(memory.right.row(Scores::column(c)) + j);
#pragma unroll
        for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) scores.at(r, c) += left[r][i] * right[i];
        }
      }
    }
  }
  return scores;
}

/// sum += factor · rows of b from `first` on.
template <class T, class Real>
__device__ __forceinline__ void multiply_add(PlainSum<Real>& sum, const PlainMemory<Real>& memory,
                                             const PlainScores<Real>& factor, const HeadRows<const T>& b, int first) {
  using Scores = PlainScores<Real>;
  constexpr int kPack = kPackedElements<Real>;
  constexpr int kColumnsOfSlice = kSlice / kPlainSide;
  __syncthreads();  // All threads have read the last factor.
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) memory.factor.row(Scores::row(r))[Scores::column(c)] = factor.at(r, c);
  }
#pragma unroll
  for (int slice = 0; slice < kPlainWidth / kSlice; ++slice) {
    if (slice * kSlice >= b.width) break;
    __syncthreads();
    load_slice(memory.right, b, first, slice * kSlice);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < kPlainRows<Real>; j += kPack) {
      Packed<Real> left[Scores::kRows];
#pragma unroll
      for (int r = 0; r < Scores::kRows; ++r) left[r] = load_packed(memory.factor.row(Scores::row(r)) + j);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
#pragma unroll
        for (int c = 0; c < kColumnsOfSlice; ++c) {
          const Real right = memory.right.row(j + i)[Scores::column(c)];
#pragma unroll
          for (int r = 0; r < Scores::kRows; ++r) sum.at(r, slice * kColumnsOfSlice + c) += left[r][i] * right;
        }
      }
    }
  }
}

template <class Result, class Real>
__device__ __forceinline__ void store_rows(const PlainSum<Real>& values, const HeadRows<Result>& rows, int first) {
#pragma unroll
  for (int r = 0; r < PlainSum<Real>::kRows; ++r) {
    const int row = first + PlainSum<Real>::row(r);
#pragma unroll
    for (int c = 0; c < PlainSum<Real>::kColumns; ++c) {
      const int column = PlainSum<Real>::column(c);
      if (row < rows.count && column < rows.width) rows.row(row)[column] = narrow<Result>(values.at(r, c));
    }
  }
}

/// Stores the block's rows of a result of type f32 or T. `rows_of` returns the rows of a head in it.
template <class T, class Real, class RowsOf>
__device__ __forceinline__ void store_result(const PlainSum<Real>& values, void* result, [[maybe_unused]] bool is_f32,
                                             const RowsOf& rows_of, int first) {
  if constexpr (!std::is_same_v<T, float>) {
    if (!is_f32) return store_rows(values, rows_of(static_cast<T*>(result)), first);
  }
  store_rows(values, rows_of(static_cast<float*>(result)), first);
}

/// Loads the places of a tile. A barrier must follow.
template <Rows Side, int Count>
__device__ __forceinline__ void load_places(TilePlaces<Count>* places, const AttentionShape& shape, int sample,
                                            int first) {
  places->template load<Side, kPlainThreads>(shape, sample, first);
  commit_copies();
  wait_copies<0>();
}

}  // namespace strata::cuda
