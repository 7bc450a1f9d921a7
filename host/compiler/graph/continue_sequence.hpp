#pragma once

#include <cstdint>

#include "strata/graph.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// How a graph computes new positions of texts only.
struct SequenceContinuation {
  Generation generation;
  /// New positions of a text in one step.
  std::int64_t positions = 1;
  /// Positions of a whole text.
  std::int64_t capacity = 1;
  /// True: the graph only fills the caches, and its outputs are those of the ops that keep something.
  bool fills_only = false;
  /// True: the graph reads a source, and computes only the values that depend on it and not on the text.
  bool reads_source = false;
};

/// The input that a continued graph has besides those of the model, i32 [batch sequence]: the position of each new
/// token in its text, or -1 for padding.
inline constexpr const char* kCachePositions = "cache_positions";

/// Rewrites an evaluation graph so that one step computes `continuation.positions` new positions of every text. An op
/// that mixes positions replaces itself (OpDefinition::continuation). Texts are at different positions, so the input of
/// positions gets the dimension "batch". If the model reads a source, the graph gets its source values as constants.
/// \throws ConfigurationError that names what cannot be continued.
void continue_sequence(Graph& graph, const OpRegistry& registry, const SequenceContinuation& continuation);

}  // namespace strata::host
