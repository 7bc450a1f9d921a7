#pragma once

#include "kernels/attention_shape.cuh"
#include "language/recomputed.hpp"

/// \file
/// Tiles of 16-bit elements in shared memory.

namespace strata::cuda {

/// Rows of Width elements in chunks of 16 bytes. The position of a chunk depends on its row, so that ldmatrix, which
/// reads the same chunk of eight neighbouring rows at once, finds them in eight different groups of four banks.
template <class T, int Rows, int Width>
class SharedTile {
 public:
  static constexpr int kChunkElements = kPackedElements<T>;
  static constexpr int kChunks = Width / kChunkElements;
  static constexpr std::size_t kBytes = std::size_t{Rows} * Width * sizeof(T);

  __device__ __forceinline__ explicit SharedTile(void* memory) : elements_(static_cast<T*>(memory)) {}

  [[nodiscard]] __device__ __forceinline__ T* chunk(int row, int chunk) const {
    return elements_ + row * Width + (chunk ^ (row & 7)) * kChunkElements;
  }

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
  static_assert(sizeof(T) == 2 && Width % 64 == 0, "rows begin in the same bank");

  template <int Threads>
  __device__ __forceinline__ void load_chunks(const HeadRows<const T>& rows, int first) const {
#pragma unroll
    for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Rows * kChunks; i += Threads) {
      const int row = i / kChunks;
      const int column = i % kChunks * kChunkElements;
      const bool is_there = first + row < rows.count && column < rows.width;
      copy_async_16(chunk(row, i % kChunks), is_there ? rows.row(first + row) + column : rows.first, is_there);
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

}  // namespace strata::cuda
