#pragma once

#include "language/language.hpp"

/// \file
/// The choices of tokens, sorted by expert: for each, the token. Their number is known on the device only, so kernels
/// work in rounds of planned capacity, and blocks find their tile by the experts' offsets.

namespace strata::cuda {

/// Sizes of an op on experts.
struct ExpertShape {
  std::int64_t tokens;
  std::int64_t width;    // of the stream
  std::int64_t experts;  // of this rank
  std::int64_t inner;
};

/// The choices of all tokens. An expert's are those from offsets[expert] to offsets[expert + 1], by token.
struct Choices {
  /// [experts + 1]
  int* offsets;
  /// The token of each choice.
  int* token_of;
  /// [tokens, experts]: the number of the choice, or -1.
  int* choice_of;
};

/// A round: the choices from `begin` to `end`. Buffers hold the rows of one round.
struct Round {
  std::int64_t begin;
  std::int64_t end;
};

/// The choices of one expert in a round.
struct Segment {
  int expert;
  std::int64_t begin;
  std::int64_t end;
};

__device__ __forceinline__ Segment segment_of(int expert, const Choices& choices, const Round& round) {
  const std::int64_t begin = choices.offsets[expert];
  const std::int64_t end = choices.offsets[expert + 1];
  return {expert, begin < round.begin ? round.begin : begin, end > round.end ? round.end : end};
}

/// At most kTile choices of one expert: number `tile` of the round. Without choices if the round has fewer tiles.
template <int kTile>
__device__ __forceinline__ Segment find_tile(std::int64_t tile, const ExpertShape& shape, const Choices& choices,
                                             const Round& round) {
  for (int expert = 0; expert < shape.experts; ++expert) {
    Segment segment = segment_of(expert, choices, round);
    const std::int64_t tiles = segment.end > segment.begin ? (segment.end - segment.begin + kTile - 1) / kTile : 0;
    if (tile < tiles) {
      segment.begin += tile * kTile;
      if (segment.end > segment.begin + kTile) segment.end = segment.begin + kTile;
      return segment;
    }
    tile -= tiles;
  }
  return {0, 0, 0};
}

}  // namespace strata::cuda
