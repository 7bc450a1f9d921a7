#pragma once

#include <cstdint>

#include "strata/graph.hpp"

namespace drawn {

/// The op of the drawn models: x -> x / (1 + x · x), element by element. No other plugin knows it.
inline constexpr const char* kFolded = "folded";

/// Options of a drawn model. Sizes that no axis divides are as good as others.
struct DrawnSettings {
  std::int64_t seed = 0;
  /// Blocks between the embeddings and the head.
  std::int64_t blocks = 4;
  std::int64_t heads = 2;
  std::int64_t embed = 8;
  /// Elements of a target and of a source.
  std::int64_t context = 8;
  std::int64_t letters = 5;
  std::int64_t vocab = 16;
  double dropout = 0.1;
};

/// Appends a graph that depends on the settings only. Two streams, of the target [batch seq embed] and of the source
/// [batch letter embed], run through the blocks. Each block extends one of them from any earlier value, so values skip
/// stages and have several later readers in crossed order. Blocks may be empty, share parameters with blocks far away,
/// and have frozen parameters, dead values or a second loss.
void append_drawn_graph(strata::GraphBuilder& builder, const DrawnSettings& settings);

}  // namespace drawn
