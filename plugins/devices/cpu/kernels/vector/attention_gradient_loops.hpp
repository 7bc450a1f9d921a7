#pragma once

// The tiled gradient of attention, for any units that multiply tiles.

#include "kernels/vector/attention_loops.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

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
/// score is p · (dp - delta), and dv = Σ p · m · do.
///
/// `Units` multiplies tiles, for one head of keys at a time:
///   Element            type of the operands
///   Scratch            scratch of a thread: dk and dv [kv_length][dim], scores and factors [key][query], lse and delta
///                      [query]
///   Units(shape, scratch, k, v)
///   load_queries(count, q, d_o)
///   score_tile(key, key_count), add_tile(key, key_count)      called by each_tile(); add_tile adds to dq, dk and dv
///   write_queries(count, dq, stride)                          writes dq of the loaded queries
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
    Units units(shape_, scratch, head_begin(operands_.k, shape_.key_strides, batch, kv_head),
                head_begin(operands_.v, shape_.value_strides, batch, kv_head));
    const std::size_t bytes = static_cast<std::size_t>(scratch.kv_length * scratch.dim) * sizeof(float);
    __builtin_memset(scratch.dk, 0, bytes);
    __builtin_memset(scratch.dv, 0, bytes);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        add_block(query_block(shape_, batch, head, query), mask, scratch, units);
      }
    }
    write_keys(operands_.dk, shape_.key_strides, batch, kv_head, scratch.dk, scratch.dim, shape_.scale);
    write_keys(operands_.dv, shape_.value_strides, batch, kv_head, scratch.dv, scratch.dim, 1.0F);
  }

  void write_keys(void* to, const HeadStrides& strides, std::int64_t batch, std::int64_t kv_head, const float* rows,
                  std::int64_t dim, float factor) const {
    with_result<T>(shape_, to, [&](auto* result) {
      unpack_rows(shape_.kv_sequence, shape_.head_dim, rows, dim, factor, head_begin(result, strides, batch, kv_head),
                  strides.sequence);
    });
  }

  void add_block(const QueryBlock& block, const AttentionMask& mask, const Scratch& scratch, Units& units) const {
    const T* d_o = block_begin(operands_.d_o, shape_.output_strides, block);
    units.load_queries(block.count, block_begin(operands_.q, shape_.query_strides, block), d_o);
    load_statistics(block, d_o, scratch);
    each_tile(shape_, mask, block, scratch, units);
    with_result<T>(shape_, operands_.dq, [&](auto* dq) {
      units.write_queries(block.count, block_begin(dq, shape_.query_strides, block), shape_.query_strides.sequence);
    });
  }

  void load_statistics(const QueryBlock& block, const T* d_o, const Scratch& scratch) const {
    const T* o = block_begin(operands_.o, shape_.output_strides, block);
    const float* lse = block_lse(operands_.lse, shape_, block);
    const std::int64_t stride = shape_.output_strides.sequence;
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
