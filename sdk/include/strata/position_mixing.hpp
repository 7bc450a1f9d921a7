#pragma once

#include <cstdint>

#include "strata/tensor.hpp"

namespace strata {

/// How an op mixes the positions of sequences, as attention does: each query reads the values of many keys. Strategies
/// that shard sequences ask for it, whatever the op is called. All dimensions are iteration dimensions of the op.
struct PositionMixing {
  /// How results for disjoint parts of the keys combine to those for all keys. It concerns results without the
  /// dimension `keys`. Results along it are of one part only.
  enum class Merge : std::uint8_t {
    none,        ///< they do not: the op needs all keys at once
    sum,         ///< they are added, as gradients of queries are
    log_sum_exp  ///< a mean with weights, and the logarithm of the sum of the weights: the op's only results
  };

  /// The positions that results are computed for.
  Dim queries;
  /// The positions that they read, whole on every rank (IterationSpace::whole). Another name than `queries`, because a
  /// strategy that merges parts shards the two apart.
  Dim keys;
  /// The dimensions along which all of it happens independently, such as heads.
  Dims heads = {};
  Merge merge = Merge::none;
  /// For Merge::log_sum_exp: the result that is the mean, [batch queries heads… width], and the one that is the
  /// logarithm, [batch heads… queries] in f32 or f64. The op `attention_merge` merges such results. A query that reads
  /// nothing of a part has a mean of 0 and a logarithm of -inf.
  int mean = 0;
  int logarithm = 1;
  /// If not 0: a query reads no other keys than that of its own position and the `window` - 1 before it.
  std::int64_t window = 0;
  /// True if the op has the attribute "dtype": the type of its results where that is not the type of its operands. If
  /// not, results for parts of the keys are rounded to the type of the operands before they are merged in f32.
  bool takes_result_type = false;
};

}  // namespace strata
