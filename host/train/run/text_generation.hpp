#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/checkpoint/checkpoint.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {

/// How the next token is chosen.
struct SamplingSettings {
  /// Logits are divided by it; 0 takes the likeliest token.
  double temperature = 1;
  /// Only the likeliest ones are candidates; 0: all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
};

/// Chooses a token by its logits; `index` counts the choices, each of which has its own random number.
[[nodiscard]] std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings,
                                        std::uint64_t index);

/// A configuration of one rank that runs the model of a checkpoint: without strategies, batch 1.
[[nodiscard]] RunConfiguration generation_configuration(const CheckpointReader& checkpoint,
                                                        const std::vector<std::string>& overrides);

/// Continues `prompt` by `count` tokens with the parameters of a checkpoint, and hands over each as it is made. The
/// model sees as many of the last tokens as its context holds. \throws ConfigurationError for a token outside of the
/// model's vocabulary.
void generate(const RunSetup& setup, const CheckpointReader& checkpoint, std::vector<std::int32_t> prompt,
              std::int64_t count, const SamplingSettings& settings,
              const std::function<void(std::int32_t token)>& on_token);

}  // namespace strata::host
