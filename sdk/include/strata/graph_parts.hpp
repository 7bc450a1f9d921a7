#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/export.hpp"
#include "strata/graph.hpp"

/// \file
/// Parts of graphs that have many options or consist of several nodes. They add to GraphBuilder's calls.

namespace strata {

/// What attention sees, and how it scores it.
struct AttentionOptions {
  /// A query sees the keys up to its own position.
  bool causal = false;
  /// Probability with which a probability is dropped in training.
  double dropout = 0;
  /// With `causal`: a query sees itself and the `window` - 1 tokens before it. 0: all tokens before it.
  std::int64_t window = 0;
  /// The factor of the products q · k. Empty: 1 / √head_dim.
  std::optional<double> scale = std::nullopt;
  /// i32 [batch seq], the documents of the queries: a query sees only keys with its own number. As a mask of padding,
  /// it is 1 for tokens and 0 for padding. A query that sees no key gets 0.
  std::optional<Value> documents = std::nullopt;
  /// The same for keys along another dimension than the queries. Empty: `documents` serves both.
  std::optional<Value> key_documents = std::nullopt;
  /// [heads… distance], which is added to the scores: a key that is d positions after its query gets element
  /// d + queries - 1. So "distance" is a dimension of queries + keys - 1 elements. The heads are those of q.
  std::optional<Value> bias = std::nullopt;
};

/// Attention of q [batch seq heads… head_dim] over k and v, where "seq" is any dimension, and another one for k and v
/// if the mask is not causal. Grouped queries: the heads dims of k and v are the first of those of q, such as
/// [kv_heads] for [kv_heads group].
STRATA_API Value attention(GraphBuilder& builder, Value q, Value k, Value v, const AttentionOptions& options,
                           const std::string& name);

/// x · y, element by element. `y` has the dims of `x` or an ordered subset of them, such as a factor of each column.
STRATA_API Value multiply(GraphBuilder& builder, Value x, Value y, const std::string& name);

/// The mean of `x` over the dims that `result` lacks, which are not "batch". `result`: an ordered subset of the dims of
/// `x`.
STRATA_API Value mean(GraphBuilder& builder, Value x, const Dims& result, const std::string& name);

}  // namespace strata
