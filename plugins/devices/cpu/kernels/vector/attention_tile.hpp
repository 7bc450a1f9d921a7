#pragma once

#include "kernels/attention.hpp"
#include "kernels/vector/global_index.hpp"
#include "kernels/vector/vector.hpp"

// Tiles of attention, and what is known of their tokens. A tile contains the scores of kQueries queries and at most
// kKeys keys of one head, stored as [key][query]. Vector lanes are queries, so maxima and sums over keys need no
// shuffles.

namespace strata::cpu::STRATA_CPU_TARGET {

namespace {

/// A small matrix with one number per (row, depth) and any strides.
struct TileOperand {
  const float* data;
  std::int64_t row_stride;
  std::int64_t depth_stride;
};

/// Rows that consist of whole vectors.
template <class Pointer>
struct TileRows {
  Pointer data;
  std::int64_t stride;
};

// The accumulators of a tile must fit into registers: 16 of the 32 of AVX-512 and NEON, 8 of the 16 of AVX2 and SSE2.
constexpr int kTileVectors = 2;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileHeight = 8;
#else
constexpr int kTileHeight = 4;
#endif

template <int height, int vectors>
inline void tile_kernel(std::int64_t depth, const TileOperand& a, const TileRows<const float*>& b,
                        const TileRows<float*>& c, bool accumulate) {
  Float total[height][vectors];
  STRATA_UNROLL
  for (int row = 0; row < height; ++row) {
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) {
      total[row][v] = accumulate ? load(c.data + row * c.stride + v * kLanes) : Float{};
    }
  }
  const float* a_at = a.data;
  const float* b_at = b.data;
  for (std::int64_t k = 0; k < depth; ++k, a_at += a.depth_stride, b_at += b.stride) {
    Float b_row[vectors];
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) b_row[v] = load(b_at + v * kLanes);
    STRATA_UNROLL
    for (int row = 0; row < height; ++row) {
      const Float factor = broadcast(a_at[row * a.row_stride]);
      STRATA_UNROLL
      for (int v = 0; v < vectors; ++v) total[row][v] = multiply_add(factor, b_row[v], total[row][v]);
    }
  }
  STRATA_UNROLL
  for (int row = 0; row < height; ++row) {
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) store(c.data + row * c.stride + v * kLanes, total[row][v]);
  }
}

template <int vectors>
inline void tile_columns(std::int64_t rows, std::int64_t depth, TileOperand a, const TileRows<const float*>& b,
                         TileRows<float*> c, bool accumulate) {
  for (; rows >= kTileHeight; rows -= kTileHeight) {
    tile_kernel<kTileHeight, vectors>(depth, a, b, c, accumulate);
    a.data += kTileHeight * a.row_stride;
    c.data += kTileHeight * c.stride;
  }
  for (; rows > 0; --rows, a.data += a.row_stride, c.data += c.stride) {
    tile_kernel<1, vectors>(depth, a, b, c, accumulate);
  }
}

/// c[row, vectors of columns] (+)= sum over k < depth of a[row, k] * b[k, vectors of columns]
inline void tile_product(std::int64_t rows, std::int64_t vectors, std::int64_t depth, const TileOperand& a,
                         TileRows<const float*> b, TileRows<float*> c, bool accumulate) {
  for (; vectors >= kTileVectors; vectors -= kTileVectors) {
    tile_columns<kTileVectors>(rows, depth, a, b, c, accumulate);
    b.data += kTileVectors * kLanes;
    c.data += kTileVectors * kLanes;
  }
  for (; vectors > 0; --vectors, b.data += kLanes, c.data += kLanes) {
    tile_columns<1>(rows, depth, a, b, c, accumulate);
  }
}

}  // namespace

namespace {

constexpr int kQueryVectors = kTileVectors;
constexpr std::int64_t kQueries = kQueryVectors * kLanes;
constexpr std::int64_t kKeys = 32;  // small, because a causal mask wastes half of each tile on the diagonal
constexpr std::int64_t kTileSize = kKeys * kQueries;

/// Allocates pieces of a workspace, each aligned to a cache line. With a null begin it only counts bytes.
class Workspace {
 public:
  explicit Workspace(void* begin) : begin_(static_cast<char*>(begin)) {}

  template <class Element>
  Element* take(std::int64_t count) {
    Element* piece = begin_ == nullptr ? nullptr : reinterpret_cast<Element*>(begin_ + used_);
    used_ += round_up(count * static_cast<std::int64_t>(sizeof(Element)), 64);
    return piece;
  }

  std::int64_t used() const { return used_; }

 private:
  char* begin_;
  std::int64_t used_ = 0;
};

/// A number of each token of some sequences, such as its position. Sequences are padded to whole blocks of tokens by
/// repeating the last number.
class TokenNumbers {
 public:
  /// `blocks_of`: tokens of a block.
  TokenNumbers(Workspace& workspace, std::int64_t sequences, std::int64_t length, std::int64_t blocks_of)
      : length_(length),
        block_(blocks_of),
        blocks_(divide_up(length, blocks_of)),
        numbers_(workspace.take<std::int32_t>(sequences * blocks_ * block_)),
        least_(workspace.take<std::int32_t>(sequences * blocks_)),
        largest_(workspace.take<std::int32_t>(sequences * blocks_)) {}

  void fill(const IndexMap& map) const {
    std::int32_t* to = numbers_;
    for (std::int64_t i = 0; i < length_;) {
      const IndexSegment segment = segment_of(map, length_, i);
      for (; i < segment.local_begin + segment.length; ++i) {
        to[i] = static_cast<std::int32_t>(segment.global_begin + (i - segment.local_begin));
      }
    }
    finish(0);
  }

  void fill(std::int64_t sequences, const std::int32_t* from) const {
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      __builtin_memcpy(numbers_ + sequence * blocks_ * block_, from + sequence * length_,
                       static_cast<std::size_t>(length_) * sizeof(std::int32_t));
      finish(sequence);
    }
  }

  /// The numbers from token `begin` on.
  const std::int32_t* from(std::int64_t begin, std::int64_t sequence = 0) const {
    return numbers_ + sequence * blocks_ * block_ + begin;
  }
  /// The least and the largest number of the block that begins at token `begin`.
  std::int32_t least(std::int64_t begin, std::int64_t sequence = 0) const {
    return least_[sequence * blocks_ + begin / block_];
  }
  std::int32_t largest(std::int64_t begin, std::int64_t sequence = 0) const {
    return largest_[sequence * blocks_ + begin / block_];
  }

 private:
  /// Pads a sequence, and finds the least and the largest number of its blocks.
  void finish(std::int64_t sequence) const {
    std::int32_t* numbers = numbers_ + sequence * blocks_ * block_;
    for (std::int64_t i = length_; i < blocks_ * block_; ++i) numbers[i] = numbers[length_ - 1];
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int32_t* first = numbers + block * block_;
      std::int32_t least = first[0];
      std::int32_t largest = first[0];
      for (std::int64_t i = 1; i < block_; ++i) {
        least = first[i] < least ? first[i] : least;
        largest = first[i] > largest ? first[i] : largest;
      }
      least_[sequence * blocks_ + block] = least;
      largest_[sequence * blocks_ + block] = largest;
    }
  }

  std::int64_t length_;
  std::int64_t block_;
  std::int64_t blocks_;
  std::int32_t* numbers_;
  std::int32_t* least_;
  std::int32_t* largest_;
};

}  // namespace

}  // namespace strata::cpu::STRATA_CPU_TARGET
