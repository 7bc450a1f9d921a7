#pragma once

// Shared by attention and its gradient, for any units that multiply tiles: tasks for threads, the loop over the tiles
// of keys that a block of queries sees, and the forward pass over them.

#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

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
inline Pointer block_begin(Pointer data, const HeadStrides& strides, const QueryBlock& block) {
  return head_begin(data, strides, block.batch, block.head) + block.begin * strides.sequence;
}

/// The log-sum-exp of a block's first query.
template <class Pointer>
inline Pointer block_lse(Pointer lse, const AttentionShape& shape, const QueryBlock& block) {
  return lse + (block.batch * shape.heads + block.head) * shape.sequence + block.begin;
}

/// For every tile of keys that a query of the block sees, calls units.score_tile(key, key_count), which writes
/// scratch.scores[key][query], and then units.add_tile(key, key_count). In between, scores of unseen keys are set to
/// -infinity, and scratch.factors (null: no dropout) is filled for the tile.
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
    if (positions == TileMask::some) mask.hide_by_position(block.begin, key, key_count, scratch.scores);
    if (documents == TileMask::some) mask.hide_by_document(block.batch, block.begin, key, key_count, scratch.scores);
    if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
    units.add_tile(key, key_count);
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

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
