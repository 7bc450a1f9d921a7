#pragma once

#include "kernels/attention_shape.cuh"
#include "language/warpgroup.hpp"

/// \file
/// Stores from registers to rows in global memory.

namespace strata::cuda {

// Tiles of 16-bit elements in shared memory.

/// Rows of Width elements in panels of 64 columns, which are rows of eight chunks of 16 bytes. The place of a chunk
/// depends on its row, so that ldmatrix, which reads the same chunk of eight neighbouring rows at once, finds them in
/// eight different groups of four banks. wgmma calls this layout a swizzle of 128 bytes.
template <class T, int Rows, int Width>
class SharedTile {
 public:
  static constexpr int kChunkElements = kPackedElements<T>;
  static constexpr int kChunks = Width / kChunkElements;
  static constexpr int kPanelColumns = 64;
  static constexpr int kPanels = Width / kPanelColumns;
  static constexpr int kPanelElements = Rows * kPanelColumns;

  __device__ __forceinline__ explicit SharedTile(void* memory) : elements_(static_cast<T*>(memory)) {}

  [[nodiscard]] __device__ __forceinline__ T* chunk(int row, int chunk) const {
    constexpr int kPanelChunks = kPanelColumns / kChunkElements;
    return panel(chunk / kPanelChunks) + row * kPanelColumns + ((chunk % kPanelChunks) ^ (row & 7)) * kChunkElements;
  }
  [[nodiscard]] __device__ __forceinline__ T* panel(int index) const { return elements_ + index * kPanelElements; }

  /// Starts to load rows from `first` on. Elements past the last row and column are zero. All threads of the block take
  /// part.
  template <int Threads>
  __device__ __forceinline__ void load(const HeadRows<const T>& rows, int first) const {
    if (rows.is_aligned) {
      load_chunks<Threads>(rows, first);
    } else {
      load_elements<Threads>(rows, first);
    }
  }

 private:
  static_assert(sizeof(T) == 2 && Width % kPanelColumns == 0 && Rows % 8 == 0);

  /// A thread loads the same chunk of every kStep-th row.
  template <int Threads>
  __device__ __forceinline__ void load_chunks(const HeadRows<const T>& rows, int first) const {
    constexpr int kStep = Threads / kChunks;
    static_assert(Rows % kStep == 0 && kStep % 8 == 0);
    const int thread = recomputed(static_cast<int>(threadIdx.x));
    const int row = thread / kChunks;
    const int column = thread % kChunks * kChunkElements;
    const T* from = rows.row(first + row) + column;
    const int there = column < rows.width ? rows.count - first - row : 0;  // rows from `from` on
#pragma unroll
    for (int i = 0; i < Rows; i += kStep) {
      copy_async(chunk(row + i, thread % kChunks), i < there ? from : rows.first, i < there);
      from += kStep * rows.stride;
    }
  }

  /// Loads rows of any alignment.
  template <int Threads>
  __device__ __forceinline__ void load_elements(const HeadRows<const T>& rows, int first) const {
    for (int i = static_cast<int>(threadIdx.x); i < Rows * kChunks; i += Threads) {
      const int row = i / kChunks;
      const int column = i % kChunks * kChunkElements;
      Packed<T> values;
#pragma unroll
      for (int j = 0; j < kChunkElements; ++j) {
        const bool is_there = first + row < rows.count && column + j < rows.width;
        values[j] = is_there ? rows.row(first + row)[column + j] : T{};
      }
      store_packed(chunk(row, i % kChunks), values);
    }
  }

  T* elements_;
};

// Matrices that are distributed over the registers of a block's warps, and their products with tiles on tensor cores.

/// A matrix with RowTiles · 16 rows per warp, in the layout of mma_m16n8k16's results.
template <int RowTiles, int Columns>
struct MatrixFragment {
  using Real = float;
  static constexpr int kRows = 2 * RowTiles;
  static constexpr int kColumns = Columns / 4;
  /// Number of lanes that share a row. They are neighbours.
  static constexpr int kLanesPerRow = 4;

  float values[RowTiles][Columns / 8][4];

  [[nodiscard]] static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
  /// The warp's first row in the block.
  [[nodiscard]] static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / kWarpSize * 16 * RowTiles;
  }
  /// Row or column of the block's matrix that corresponds to the thread's `r` or `c`.
  [[nodiscard]] static __device__ __forceinline__ int row(int r) {
    return first_row() + 16 * (r / 2) + 8 * (r % 2) + lane() / 4;
  }
  [[nodiscard]] static __device__ __forceinline__ int column(int c) { return 8 * (c / 2) + 2 * (lane() % 4) + c % 2; }

  [[nodiscard]] __device__ __forceinline__ float& at(int r, int c) { return values[r / 2][c / 2][2 * (r % 2) + c % 2]; }
  [[nodiscard]] __device__ __forceinline__ float at(int r, int c) const {
    return values[r / 2][c / 2][2 * (r % 2) + c % 2];
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) at(r, c) = 0.0F;
    }
  }
  __device__ __forceinline__ void scale_row(int r, float factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) at(r, c) *= factor;
  }
};

/// d += a · b for a pair of neighbouring 8-column pieces, with the pieces of b as ldmatrix_x4 leaves them.
template <class T>
__device__ __forceinline__ void multiply_pair(float (&left)[4], float (&right)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&pieces)[4]) {
  const std::uint32_t left_pieces[2] = {pieces[0], pieces[1]};
  const std::uint32_t right_pieces[2] = {pieces[2], pieces[3]};
  mma_m16n8k16<T>(left, a, left_pieces, left);
  mma_m16n8k16<T>(right, a, right_pieces, right);
}

/// True if warpgroups multiply these fragments. Then four warps compute 64 rows, 16 per warp, in the same layout as
/// mma_m16n8k16.
template <int RowTiles, int Columns>
inline constexpr bool kWarpgroupsMultiply = kHasWarpgroupUnits&& RowTiles == 1 && Columns % kWarpgroupColumns == 0;

/// The accumulators of a panel of 64 columns.
template <int Columns>
__device__ __forceinline__ WarpgroupSums& sums_of_panel(MatrixFragment<1, Columns>& fragment, int panel) {
  return reinterpret_cast<WarpgroupSums&>(fragment.values[0][panel * (kWarpgroupColumns / 8)]);
}

/// a · bᵀ: the scores of the rows of `a` with the rows of `b`. `a` has as many rows as the block's warps hold.
template <class T, int RowTiles, int Columns, int Rows, int Width>
__device__ __forceinline__ MatrixFragment<RowTiles, Columns> multiply_transposed(
    const SharedTile<T, Rows, Width>& a, const SharedTile<T, Columns, Width>& b) {
  using Fragment = MatrixFragment<RowTiles, Columns>;
  Fragment scores;
  if constexpr (kWarpgroupsMultiply<RowTiles, Columns>) {
    using Tile = SharedTile<T, Rows, Width>;
    const int first_row = static_cast<int>(threadIdx.x) / kWarpgroupThreads * kWarpgroupRows;
    begin_warpgroup_products();
#pragma unroll
    for (int step = 0; step < Width / 16; ++step) {
      const int panel = step * 16 / Tile::kPanelColumns;
      const int column = step * 16 % Tile::kPanelColumns;
      const T* left = a.panel(panel) + first_row * Tile::kPanelColumns + column;
#pragma unroll
      for (int n = 0; n < Columns / kWarpgroupColumns; ++n) {
        const T* right = b.panel(panel) + n * kWarpgroupColumns * Tile::kPanelColumns + column;
        warpgroup_multiply_transposed<T>(sums_of_panel(scores, n), left, right, step > 0);
      }
    }
    end_warpgroup_products();
  } else {
    scores.clear();
    const int lane = recomputed(Fragment::lane());
    const int first_row = recomputed(Fragment::first_row());
#pragma unroll
    for (int step = 0; step < Width / 16; ++step) {
      std::uint32_t a_pieces[RowTiles][4];
#pragma unroll
      for (int m = 0; m < RowTiles; ++m) {
        ldmatrix_x4(a_pieces[m], a.chunk(first_row + 16 * m + lane % 16, 2 * step + lane / 16));
      }
#pragma unroll
      for (int n = 0; n < Columns / 16; ++n) {
        std::uint32_t b_pieces[4];
        ldmatrix_x4(b_pieces, b.chunk(16 * n + 8 * (lane / 16) + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < RowTiles; ++m) {
          multiply_pair<T>(scores.values[m][2 * n], scores.values[m][2 * n + 1], a_pieces[m], b_pieces);
        }
      }
    }
  }
  return scores;
}

/// 16 columns of a fragment from column 16 `step` on, rounded to T, as a left factor: its layout is that of a product's
/// result.
template <class T, int RowTiles, int Columns>
__device__ __forceinline__ void pack_factor(std::uint32_t (&pieces)[4], const MatrixFragment<RowTiles, Columns>& a,
                                            int row_tile, int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float(&piece)[4] = a.values[row_tile][2 * step + i / 2];
    pieces[i] = pack_pair<T>(piece[2 * (i % 2)], piece[2 * (i % 2) + 1]);
  }
}

/// sum += a · b, with `a` rounded to T.
template <class T, int RowTiles, int Columns, int Width>
__device__ __forceinline__ void multiply_add(MatrixFragment<RowTiles, Width>& sum,
                                             const MatrixFragment<RowTiles, Columns>& a,
                                             const SharedTile<T, Columns, Width>& b) {
  constexpr int kSteps = Columns / 16;
  if constexpr (kWarpgroupsMultiply<RowTiles, Width>) {
    using Tile = SharedTile<T, Columns, Width>;
    std::uint32_t a_pieces[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) pack_factor<T>(a_pieces[step], a, 0, step);
    begin_warpgroup_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int n = 0; n < Tile::kPanels; ++n) {
        warpgroup_multiply_add<T>(sums_of_panel(sum, n), a_pieces[step], b.panel(n) + 16 * step * Tile::kPanelColumns);
      }
    }
    end_warpgroup_products();
  } else {
    const int lane = recomputed(MatrixFragment<RowTiles, Width>::lane());
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      std::uint32_t a_pieces[RowTiles][4];
#pragma unroll
      for (int m = 0; m < RowTiles; ++m) pack_factor<T>(a_pieces[m], a, m, step);
#pragma unroll
      for (int n = 0; n < Width / 16; ++n) {
        std::uint32_t b_pieces[4];
        ldmatrix_x4_trans(b_pieces, b.chunk(16 * step + lane % 16, 2 * n + lane / 16));
#pragma unroll
        for (int m = 0; m < RowTiles; ++m) {
          multiply_pair<T>(sum.values[m][2 * n], sum.values[m][2 * n + 1], a_pieces[m], b_pieces);
        }
      }
    }
  }
}

/// Stores pairs of neighbours. Four lanes fill the 32 bytes of a sector.
template <int RowTiles, int Width>
__device__ __forceinline__ void store_pairs(const MatrixFragment<RowTiles, Width>& values, const HeadRows<float>& rows,
                                            int first) {
  using Fragment = MatrixFragment<RowTiles, Width>;
#pragma unroll
  for (int r = 0; r < Fragment::kRows; ++r) {
    if (first + Fragment::row(r) >= rows.count) continue;
    float* row = rows.row(first + Fragment::row(r));
#pragma unroll
    for (int c = 0; c < Fragment::kColumns; c += 2) {
      const int column = Fragment::column(c);
      if (rows.is_aligned && column < rows.width) {
        store_packed(row + column, Packed<float, 2>{{values.at(r, c), values.at(r, c + 1)}});
      } else {
        if (column < rows.width) row[column] = values.at(r, c);
        if (column + 1 < rows.width) row[column + 1] = values.at(r, c + 1);
      }
    }
  }
}

/// Stores through shared memory, so that each store has 16 bytes. No warp accesses the rows of another warp.
template <class T, int RowTiles, int Width, int Rows>
__device__ __forceinline__ void store_chunks(const MatrixFragment<RowTiles, Width>& values,
                                             const SharedTile<T, Rows, Width>& staging, const HeadRows<T>& rows,
                                             int first) {
  using Fragment = MatrixFragment<RowTiles, Width>;
  using Tile = SharedTile<T, Rows, Width>;
#pragma unroll
  for (int r = 0; r < Fragment::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Fragment::kColumns; c += 2) {
      const Packed<T, 2> pair{{narrow<T>(values.at(r, c)), narrow<T>(values.at(r, c + 1))}};
      store_packed(staging.chunk(Fragment::row(r), c / 2) + 2 * (Fragment::lane() % 4), pair);
    }
  }
  __syncwarp();
  for (int i = Fragment::lane(); i < 16 * RowTiles * Tile::kChunks; i += kWarpSize) {
    const int row = Fragment::first_row() + i / Tile::kChunks;
    const int column = i % Tile::kChunks * Tile::kChunkElements;
    if (first + row >= rows.count || column >= rows.width) continue;
    const Packed<T> chunk = load_packed(staging.chunk(row, i % Tile::kChunks));
    T* to = rows.row(first + row) + column;
    if (rows.is_aligned) {
      store_packed(to, chunk);
    } else {
      for (int j = 0; j < Tile::kChunkElements && column + j < rows.width; ++j) to[j] = chunk[j];
    }
  }
  __syncwarp();
}

/// Stores the block's rows of a result of type f32 or T. `rows_of` returns the rows of a head in it. `staging` is a
/// tile that the block no longer needs.
template <class T, int RowTiles, int Width, int Rows, class RowsOf>
__device__ __forceinline__ void store_result(const MatrixFragment<RowTiles, Width>& values,
                                             const SharedTile<T, Rows, Width>& staging, void* result, bool is_f32,
                                             const RowsOf& rows_of, int first) {
  if (is_f32) {
    store_pairs(values, rows_of(static_cast<float*>(result)), first);
  } else {
    store_chunks(values, staging, rows_of(static_cast<T*>(result)), first);
  }
}

}  // namespace strata::cuda
