#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"

namespace strata::models {

/// How rotary angles change so that a model reads longer texts than it was trained on.
struct RopeScaling {
  enum class Kind : std::uint8_t {
    none,
    linear,   ///< all angles divided by `factor` (Chen et al., "Extending Context Window … via Positional
              ///< Interpolation", 2023)
    llama3,   ///< slow angles divided by `factor`, fast ones kept, a ramp between (Llama 3.1)
    yarn,     ///< as llama3 with a ramp over dimensions, and longer vectors (Peng et al., "YaRN", 2023)
    longrope  ///< each angle divided by a factor of its own, and longer vectors (Ding et al., "LongRoPE", 2024)
  };
  Kind kind = Kind::none;
  double factor = 1;
  /// Tokens of the context that the model was trained on first.
  double original_context = 8192;
  /// llama3: turns over the original context below which an angle is slow, and from which it is fast.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  /// yarn: turns over the original context at the ends of the ramp.
  double beta_fast = 32;
  double beta_slow = 1;
  /// Factor of cosines and sines; 0: 0.1 · ln(factor) + 1 of yarn, √(1 + ln(factor) / ln(original_context)) of
  /// longrope.
  double attention_factor = 0;
  /// longrope: the divisors of all angles, for contexts up to `original_context` and for longer ones.
  std::vector<double> short_factors = {};
  std::vector<double> long_factors = {};
};

/// Rotary positions (Su et al., "RoFormer", 2021) in the form that pairs the features i and i + width / 2.
struct Rope {
  double base = 10000;
  RopeScaling scaling = {};
  /// The part of a head's features that turn, which are the first ones.
  double fraction = 1;

  /// The features of a head that turn.
  [[nodiscard]] std::int64_t width(std::int64_t head_dim) const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction);
  }
};

/// The angle per position of each of the width / 2 pairs, in radians. `context`: the tokens of a text.
[[nodiscard]] std::vector<double> rope_frequencies(const Rope& rope, std::int64_t width, std::int64_t context);
/// The factor of cosines and sines.
[[nodiscard]] double rope_magnitude(const Rope& rope);

/// Constant tables [positions pairs] of a model, and the positions of its tokens.
struct RopeTables {
  Value cos;
  Value sin;
  Value positions;
};

/// Adds the tables NAME.cos and NAME.sin for the positions [0, size of `positions_dim`). Defines the dim "head_pair".
/// `positions`: i32 [seq] or [batch seq].
[[nodiscard]] RopeTables rope_tables(GraphBuilder& builder, const Rope& rope, const Dim& positions_dim, Value positions,
                                     const std::string& name = "rope");

/// Rotates the heads of `x` […  head_dim].
[[nodiscard]] Value rotate(GraphBuilder& builder, Value x, const RopeTables& tables, const std::string& name);

}  // namespace strata::models
