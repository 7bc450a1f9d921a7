#pragma once

#include "kernels/attention.hpp"
#include "kernels/vector/global_index.hpp"
#include "kernels/vector/vector.hpp"

// The masks of attention by tiles. A tile contains the scores of kQueries queries and at most kKeys keys of one head,
// stored as [key][query]. Vector lanes are queries, so maxima and sums over keys need no shuffles.

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

/// Tells which scores of a tile a mask hides: none, some or all.
enum class TileMask { none, some, all };

/// The causal mask with its window, by global positions, and the mask of documents.
class AttentionMask {
 public:
  AttentionMask(Workspace& workspace, const AttentionShape& shape)
      : queries(workspace, 1, shape.sequence, kQueries),
        keys(workspace, 1, shape.kv_sequence, kKeys),
        shape_(shape),
        query_documents_(workspace, shape.has_documents ? shape.batch : 0, shape.sequence, kQueries),
        key_documents_(workspace, shape.has_documents ? shape.batch : 0, shape.kv_sequence, kKeys) {}

  void fill() const {
    queries.fill(shape_.query_positions);
    keys.fill(shape_.key_positions);
    if (!shape_.has_documents) return;
    query_documents_.fill(shape_.batch, shape_.query_documents);
    key_documents_.fill(shape_.batch, shape_.key_documents);
  }

  /// The mask of positions. `query` and `key` are the first ones of the tile, here and below.
  TileMask of_positions(std::int64_t query, std::int64_t key) const {
    if (!shape_.causal) return TileMask::none;
    const std::int64_t nearest = std::int64_t{queries.least(query)} - keys.largest(key);
    const std::int64_t farthest = std::int64_t{queries.largest(query)} - keys.least(key);
    if (nearest >= 0 && (shape_.window == 0 || farthest < shape_.window)) return TileMask::none;
    return farthest < 0 || (shape_.window > 0 && nearest >= shape_.window) ? TileMask::all : TileMask::some;
  }

  TileMask of_documents(std::int64_t batch, std::int64_t query, std::int64_t key) const {
    if (!shape_.has_documents) return TileMask::none;
    const std::int32_t query_least = query_documents_.least(query, batch);
    const std::int32_t query_largest = query_documents_.largest(query, batch);
    const std::int32_t key_least = key_documents_.least(key, batch);
    const std::int32_t key_largest = key_documents_.largest(key, batch);
    if (query_largest < key_least || key_largest < query_least) return TileMask::all;
    return query_least == query_largest && key_least == key_largest ? TileMask::none : TileMask::some;
  }

  /// Sets the scores that the mask of positions hides to -infinity.
  void hide_by_position(std::int64_t query, std::int64_t key, std::int64_t key_count, float* scores) const {
    if (shape_.window == 0) {
      hide(queries.from(query), keys.from(key), key_count, scores, [](Int q, Int k) { return q >= k; });
      return;
    }
    const Int window = broadcast(static_cast<std::int32_t>(smaller(shape_.window, INT32_MAX)));
    hide(queries.from(query), keys.from(key), key_count, scores,
         [window](Int q, Int k) { return (q >= k) & (q - k < window); });
  }

  void hide_by_document(std::int64_t batch, std::int64_t query, std::int64_t key, std::int64_t key_count,
                        float* scores) const {
    hide(query_documents_.from(query, batch), key_documents_.from(key, batch), key_count, scores,
         [](Int q, Int k) { return q == k; });
  }

  /// Global positions.
  TokenNumbers queries;
  TokenNumbers keys;

 private:
  template <class Visible>
  static void hide(const std::int32_t* query_numbers, const std::int32_t* key_numbers, std::int64_t key_count,
                   float* scores, const Visible& visible) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Int number = load<Int>(query_numbers + v * kLanes);
      for (std::int64_t j = 0; j < key_count; ++j) {
        float* score = scores + j * kQueries + v * kLanes;
        store(score, select(visible(number, broadcast(key_numbers[j])), load(score), broadcast(-kInfinity)));
      }
    }
  }

  const AttentionShape& shape_;
  TokenNumbers query_documents_;
  TokenNumbers key_documents_;
};

}  // namespace

}  // namespace strata::cpu::STRATA_CPU_TARGET
