#pragma once

// Shared by attention and its gradient: the dropout factors of tiles, and rows in f32.

#include "kernels/vector/attention_mask.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/philox.hpp"
#include "kernels/vector/transpose.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Dropout factors of the probabilities, for one block of queries of one head.
class TileDropout {
 public:
  TileDropout(const AttentionShape& shape, std::int64_t batch, std::int64_t head, const TokenNumbers& queries,
              std::int64_t query, const TokenNumbers& keys)
      : factors_(shape.dropout), keys_(keys) {
    const std::int64_t sample = global_index(shape.samples, shape.batch, batch);
    const std::int64_t global_head = global_index(shape.head_indices, shape.heads, head);
    const std::int64_t first = (sample * shape.global_heads + global_head) * shape.global_sequence;
    for (std::int64_t i = 0; i < kQueries; ++i) {
      row_begin_[i] = static_cast<std::uint64_t>(first + queries.from(query)[i]) *
                      static_cast<std::uint64_t>(shape.global_kv_sequence);
    }
    rows_aligned_ = shape.global_kv_sequence % 4 == 0;
  }

  /// Writes factors[key][query] of a tile.
  void fill(std::int64_t key, std::int64_t key_count, float* factors) const {
    for (std::int64_t j = 0; j < key_count;) {
      const std::int64_t position = keys_.from(key)[j];
      if (rows_aligned_ && position % 4 == 0 && j + 4 <= key_count && keys_.from(key)[j + 3] == position + 3) {
        fill_four(position, factors + j * kQueries);
        j += 4;
      } else {
        fill_one(position, factors + j * kQueries);
        ++j;
      }
    }
  }

 private:
  RandomWords random_words(int v, std::int64_t position) const {
    Word low{};
    Word high{};
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t block = (row_begin_[v * kLanes + lane] + static_cast<std::uint64_t>(position)) / 4;
      low[lane] = static_cast<std::uint32_t>(block);
      high[lane] = static_cast<std::uint32_t>(block >> 32);
    }
    return philox(low, high, factors_.key);
  }

  /// Writes the factors of four keys that share their Philox blocks.
  void fill_four(std::int64_t position, float* factors) const {
    for (int v = 0; v < kQueryVectors; ++v) {
      const RandomWords random = random_words(v, position);
      for (int word = 0; word < 4; ++word) {
        store(factors + word * kQueries + v * kLanes, factors_.of(random.words[word]));
      }
    }
  }

  void fill_one(std::int64_t position, float* factors) const {
    for (int v = 0; v < kQueryVectors; ++v) {
      const RandomWords random = random_words(v, position);
      for (int lane = 0; lane < kLanes; ++lane) {
        const std::uint64_t word = (row_begin_[v * kLanes + lane] + static_cast<std::uint64_t>(position)) % 4;
        factors[v * kLanes + lane] = random.words[word][lane] >= factors_.threshold ? factors_.kept : 0.0F;
      }
    }
  }

  DropoutFactors factors_;
  const TokenNumbers& keys_;
  std::uint64_t row_begin_[kQueries];
  bool rows_aligned_;
};

/// The beginning of one head. `data` points to elements, constant or not.
template <class Pointer>
inline Pointer head_begin(Pointer data, const HeadStrides& strides, std::int64_t batch, std::int64_t head) {
  return data + batch * strides.batch + head * strides.head;
}

/// Scratch for `count` rows in f32. Null if the rows are f32 already.
template <class T>
inline float* take_rows(Workspace& workspace, std::int64_t count, std::int64_t width) {
  return workspace.take<float>(sizeof(T) == sizeof(float) ? 0 : count * width);
}

/// Rows of `width` elements in f32. If they are f32 already, they are used in place. If not, they are converted into
/// `scratch`.
inline TileRows<const float*> rows_in_f32(std::int64_t /*count*/, std::int64_t /*width*/, const float* from,
                                          std::int64_t stride, float* /*scratch*/) {
  return {from, stride};
}

template <class T>
inline TileRows<const float*> rows_in_f32(std::int64_t count, std::int64_t width, const T* from, std::int64_t stride,
                                          float* scratch) {
  for (std::int64_t i = 0; i < count; ++i) {
    map_range(0, width, from + i * stride, scratch + i * width, [](Float a) { return a; });
  }
  return {scratch, width};
}

/// Calls body(pointer to the elements of a result). The elements are f32 if the shape says so, else T.
template <class T, class Body>
inline void with_result(const AttentionShape& shape, void* data, const Body& body) {
  if (shape.f32_results) {
    body(static_cast<float*>(data));
  } else {
    body(static_cast<T*>(data));
  }
}

/// to[row] = from[row] * factor for rows of head_dim that are `dim` apart.
template <class T>
inline void unpack_rows(std::int64_t count, std::int64_t head_dim, const float* from, std::int64_t dim, float factor,
                        T* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    map_range(0, head_dim, from + i * dim, to + i * stride, [factor](Float a) { return a * factor; });
  }
}

/// The sum of x[i] * y[i].
template <class T>
inline float dot(std::int64_t size, const T* x, const T* y) {
  Float total{};
  each_vector(0, size, [&](std::int64_t i, auto lanes) { total += load(x + i, lanes) * load(y + i, lanes); });
  return horizontal_sum(total);
}

/// to[row, column] = columns[column, row] * factor. Goes through `scratch` if `to` has a shorter type than f32.
inline void write_rows(std::int64_t count, std::int64_t width, const float* columns, float factor, float* to,
                       std::int64_t stride, float* /*scratch*/) {
  transpose(width, count, columns, kQueries, to, stride, factor);
}

template <class T>
inline void write_rows(std::int64_t count, std::int64_t width, const float* columns, float factor, T* to,
                       std::int64_t stride, float* scratch) {
  transpose(width, count, columns, kQueries, scratch, width, factor);
  for (std::int64_t i = 0; i < count; ++i) {
    map_range(0, width, scratch + i * width, to + i * stride, [](Float a) { return a; });
  }
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
