#pragma once

#include <cstdint>
#include <string>

#include "strata/graph.hpp"

namespace t5 {

/// The buckets of distances between a key and its query: half of them hold one distance each, the others ranges that
/// grow by the same factor up to `max_distance` (Raffel et al., "Exploring the Limits of Transfer Learning with a
/// Unified Text-to-Text Transformer", 2019).
struct Buckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  /// True if keys after the query have buckets of their own. If not, they share that of distance 0.
  bool both_directions = true;

  /// The bucket of a key `distance` positions after its query.
  [[nodiscard]] std::int64_t of(std::int64_t distance) const;
};

/// The bias of attention within a sequence of `length` tokens, [heads distance]. The parameter NAME.weight [bucket
/// heads] is the table. Defines the dimension `distance`.
[[nodiscard]] strata::Value relative_bias(strata::GraphBuilder& builder, const Buckets& buckets, std::int64_t length,
                                          const strata::Dim& distance, const std::string& name);

}  // namespace t5
