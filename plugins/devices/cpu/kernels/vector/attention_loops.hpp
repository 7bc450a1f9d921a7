#pragma once

// Shared by attention and its gradient, for any units that multiply tiles: the dropout factors of tiles, rows in f32,
// tasks for threads, the loop over the tiles of keys that a block of queries sees, and the forward pass and the
// gradient over them.

#include "kernels/vector/attention_mask.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/philox.hpp"
#include "kernels/vector/soft_cap.hpp"
#include "kernels/vector/transpose.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {

#if defined(__AMX_BF16__)
/// Attention of bf16 operands on the matrix units.
extern const AttentionKernels<BFloat16> matrix_attention_kernels;
#endif

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

/// Distances of neighbouring tokens, in elements.
inline std::int64_t query_stride(const AttentionShape& shape) { return shape.heads * shape.head_dim; }
inline std::int64_t key_stride(const AttentionShape& shape) { return shape.kv_heads * shape.head_dim; }

/// The beginning of one head of keys or values. `data` points to elements, constant or not.
template <class Pointer>
inline Pointer key_head(const AttentionShape& shape, Pointer data, std::int64_t batch, std::int64_t kv_head) {
  return data + batch * shape.kv_sequence * key_stride(shape) + kv_head * shape.head_dim;
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

/// Bytes of one thread's Scratch, which is constructed from a Workspace and an AttentionShape.
template <class Scratch>
std::int64_t scratch_bytes(const AttentionShape& shape) {
  Workspace own(nullptr);
  static_cast<void>(Scratch(own, shape));
  return own.used();
}

/// Bytes that attention_tasks() needs.
template <class Scratch>
std::int64_t attention_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  static_cast<void>(AttentionMask(shared, shape));
  return shared.used() + scratch_bytes<Scratch>(shape) * threads;
}

/// Calls body(task, mask, scratch) for every task of [0, count). Each thread has its own Scratch.
template <class Scratch, class Body>
void attention_tasks(const AttentionShape& shape, void* workspace, std::int64_t count, int threads, const Body& body) {
  Workspace pieces(workspace);
  const AttentionMask mask(pieces, shape);
  mask.fill();
  const std::int64_t bytes = scratch_bytes<Scratch>(shape);
  char* begin = pieces.take<char>(bytes * threads);
  parallel_tasks(threads, count, [&](std::int64_t task, int thread) {
    Workspace own(begin + thread * bytes);
    body(task, mask, Scratch(own, shape));
  });
  mask.bias.write_gradient();
}

/// A block of queries of one head.
struct QueryBlock {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t begin;  ///< the block's first query
  std::int64_t count;
};

inline QueryBlock query_block(const AttentionShape& shape, std::int64_t batch, std::int64_t head, std::int64_t begin) {
  return {batch, head, begin, smaller(kQueries, shape.sequence - begin)};
}

/// The row of a block's first query in q or in an output.
template <class Pointer>
inline Pointer block_begin(const AttentionShape& shape, Pointer data, const QueryBlock& block) {
  return data + (block.batch * shape.sequence + block.begin) * query_stride(shape) + block.head * shape.head_dim;
}

/// The log-sum-exp of a block's first query.
template <class Pointer>
inline Pointer block_lse(Pointer lse, const AttentionShape& shape, const QueryBlock& block) {
  return lse + (block.batch * shape.heads + block.head) * shape.sequence + block.begin;
}

/// Bends the scores of a tile. `cap`: in the unit of the scores; 0: none.
inline void cap_scores(std::int64_t key_count, float cap, float* scores) {
  if (cap == 0.0F) return;
  map_range(0, key_count * kQueries, scores, scores, [cap](Float score) { return soft_cap(score, cap); });
}

/// For every tile of keys that a query of the block sees, calls units.score_tile(key, key_count), which writes
/// scratch.scores[key][query], and then units.add_tile(key, key_count). In between, scores of unseen keys are set to
/// -infinity, the bias is added, and scratch.factors (null: no dropout) is filled for the tile. Units with a bias have
/// scores that are scaled, and those of gradients leave scratch.d_scores[key][query].
template <class Scratch, class Units>
inline void each_tile(const AttentionShape& shape, const AttentionMask& mask, const QueryBlock& block,
                      const Scratch& scratch, Units& units) {
  const TileDropout dropout(shape, block.batch, block.head, mask.queries, block.begin, mask.keys);
  for (std::int64_t key = 0; key < shape.kv_sequence; key += kKeys) {
    const TileMask positions = mask.of_positions(block.begin, key);
    const TileMask documents = mask.of_documents(block.batch, block.begin, key);
    if (positions == TileMask::all || documents == TileMask::all) continue;
    const std::int64_t key_count = smaller(kKeys, shape.kv_sequence - key);
    units.score_tile(key, key_count);
    const std::int32_t* queries = mask.queries.from(block.begin);
    const std::int32_t* keys = mask.keys.from(key);
    if (mask.bias.is_there()) mask.bias.add(block.head, queries, keys, key_count, scratch.scores);
    if (positions == TileMask::some) mask.hide_by_position(block.begin, key, key_count, scratch.scores);
    if (documents == TileMask::some) mask.hide_by_document(block.batch, block.begin, key, key_count, scratch.scores);
    if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
    units.add_tile(key, key_count);
    if constexpr (requires { scratch.d_scores; }) {
      if (!mask.bias.has_gradient()) continue;
      mask.bias.add_gradient(block.batch, block.head, queries, keys, key_count, scratch.d_scores);
    }
  }
}

/// The running maximum and the running sum of exponentials of each query.
struct Running {
  Running() {
    for (int v = 0; v < kQueryVectors; ++v) maximum[v] = broadcast(-kInfinity), sum[v] = Float{};
  }

  Float maximum[kQueryVectors];
  Float sum[kQueryVectors];
};

/// output[dim][query] *= factor[query]
inline void scale_output(std::int64_t dim, const Float* factor, float* output) {
  for (std::int64_t d = 0; d < dim; ++d) {
    for (int v = 0; v < kQueryVectors; ++v) {
      float* value = output + d * kQueries + v * kLanes;
      store(value, load(value) * factor[v]);
    }
  }
}

/// Divides the output by the sums, and writes the log-sum-exp of `query_count` queries. A query that sees no key gets
/// output 0 and log-sum-exp -infinity.
inline void finish(std::int64_t query_count, const Running& running, std::int64_t dim, float* output, float* lse) {
  Float inverse[kQueryVectors];
  for (int v = 0; v < kQueryVectors; ++v) {
    inverse[v] = select(running.sum[v] == Float{}, Float{}, 1.0F / running.sum[v]);
    for (std::int64_t lane = 0; lane < kLanes && v * kLanes + lane < query_count; ++lane) {
      const float sum = running.sum[v][lane];
      lse[v * kLanes + lane] = sum == 0.0F ? -kInfinity : running.maximum[v][lane] + __builtin_logf(sum);
    }
  }
  scale_output(dim, inverse, output);
}

// The gradient.

template <class T>
struct GradientOperands {
  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const float* lse;
  const T* d_o;
  void* dq;
  void* dk;
  void* dv;
};

/// With probabilities p = exp(score - lse), dropout factors m, dp = m · (do · v) and delta = do · o, the gradient of a
/// score is p · (dp - delta), and dv = Σ p · m · do. Capped scores pass it on times the slope of the cap.
///
/// `Units` multiplies tiles, for one head of keys at a time:
///   Element            type of the operands
///   Scratch            scratch of a thread: dk and dv [kv_length][dim], scores and factors [key][query], lse and delta
///                      [query]
///   Units(shape, scratch, k, v)
///   load_queries(count, q, d_o)
///   score_tile(key, key_count), add_tile(key, key_count)      called by each_tile(); add_tile adds to dq, dk and dv
///   write_queries(count, dq)                                  writes dq of the loaded queries
template <class Units>
class AttentionGradient {
 public:
  using T = typename Units::Element;
  using Scratch = typename Units::Scratch;

  AttentionGradient(const AttentionShape& shape, const GradientOperands<T>& operands)
      : shape_(shape), operands_(operands) {}

  void run(void* workspace, int threads) const {
    attention_tasks<Scratch>(shape_, workspace, shape_.batch * shape_.kv_heads, threads,
                             [this](std::int64_t task, const AttentionMask& mask, const Scratch& scratch) {
                               kv_head(task / shape_.kv_heads, task % shape_.kv_heads, mask, scratch);
                             });
  }

 private:
  /// Computes dk and dv of one head of keys, and dq of the query heads that read it.
  void kv_head(std::int64_t batch, std::int64_t kv_head, const AttentionMask& mask, const Scratch& scratch) const {
    Units units(shape_, scratch, key_head(shape_, operands_.k, batch, kv_head),
                key_head(shape_, operands_.v, batch, kv_head));
    const std::size_t bytes = static_cast<std::size_t>(scratch.kv_length * scratch.dim) * sizeof(float);
    __builtin_memset(scratch.dk, 0, bytes);
    __builtin_memset(scratch.dv, 0, bytes);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        add_block(query_block(shape_, batch, head, query), mask, scratch, units);
      }
    }
    write_keys(operands_.dk, batch, kv_head, scratch.dk, scratch.dim, shape_.scale);
    write_keys(operands_.dv, batch, kv_head, scratch.dv, scratch.dim, 1.0F);
  }

  void write_keys(void* to, std::int64_t batch, std::int64_t kv_head, const float* rows, std::int64_t dim,
                  float factor) const {
    with_result<T>(shape_, to, [&](auto* result) {
      unpack_rows(shape_.kv_sequence, shape_.head_dim, rows, dim, factor, key_head(shape_, result, batch, kv_head),
                  key_stride(shape_));
    });
  }

  void add_block(const QueryBlock& block, const AttentionMask& mask, const Scratch& scratch, Units& units) const {
    const T* d_o = block_begin(shape_, operands_.d_o, block);
    units.load_queries(block.count, block_begin(shape_, operands_.q, block), d_o);
    load_statistics(block, d_o, scratch);
    each_tile(shape_, mask, block, scratch, units);
    with_result<T>(shape_, operands_.dq,
                   [&](auto* dq) { units.write_queries(block.count, block_begin(shape_, dq, block)); });
  }

  void load_statistics(const QueryBlock& block, const T* d_o, const Scratch& scratch) const {
    const T* o = block_begin(shape_, operands_.o, block);
    const float* lse = block_lse(operands_.lse, shape_, block);
    const std::int64_t stride = query_stride(shape_);
    for (std::int64_t i = 0; i < kQueries; ++i) {
      // With lse = infinity the probabilities are 0: for queries that see no key, and for padding.
      scratch.lse[i] = i < block.count && lse[i] != -kInfinity ? lse[i] : kInfinity;
      scratch.delta[i] = i < block.count ? dot(shape_.head_dim, o + i * stride, d_o + i * stride) : 0.0F;
    }
  }

  const AttentionShape& shape_;
  GradientOperands<T> operands_;
};

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
