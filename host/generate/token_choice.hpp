#pragma once

#include <cstdint>
#include <span>

namespace strata::host {

/// How generation chooses the next token.
struct SamplingSettings {
  /// Divisor of the logits. 0 always takes the most likely token.
  double temperature = 1;
  /// Number of most likely tokens to choose from; 0: all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
  /// Chooses from the fewest most likely tokens whose probabilities sum to this (Holtzman et al., "The Curious Case of
  /// Neural Text Degeneration", ICLR 2020). It follows `temperature` and `top_k`. 1: all.
  double top_p = 1;
};

/// Chooses a token by its logits. `index` counts the choices and selects the random number.
[[nodiscard]] std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings,
                                        std::uint64_t index);

}  // namespace strata::host
