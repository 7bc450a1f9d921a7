#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/checkpoint/checkpoint.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {

/// How generation chooses the next token.
struct SamplingSettings {
  /// Divisor of the logits. 0 always takes the most likely token.
  double temperature = 1;
  /// Number of most likely tokens to choose from; 0: all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
};

/// Chooses a token by its logits. `index` counts the choices and selects the random number.
[[nodiscard]] std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings,
                                        std::uint64_t index);

/// A configuration for one rank that runs the model of a checkpoint, without strategies and with batch size 1.
[[nodiscard]] RunConfiguration generation_configuration(const CheckpointReader& checkpoint,
                                                        const std::vector<std::string>& overrides);

/// A text to continue.
struct Continuation {
  std::vector<std::int32_t> prompt;
  /// Number of tokens to add.
  std::int64_t tokens = 0;
  SamplingSettings sampling = {};
  RestoredWeights weights = RestoredWeights::trained;
};

/// Continues a text with the parameters of a checkpoint. Passes each token to `on_token` as it is chosen. The model
/// sees the last tokens, up to the size of its context. \throws ConfigurationError if a token is outside of the model's
/// vocabulary, or the checkpoint lacks the average that is asked for.
void generate(const RunSetup& setup, const CheckpointReader& checkpoint, Continuation continuation,
              const std::function<void(std::int32_t token)>& on_token);

}  // namespace strata::host
