#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "setup/run_setup.hpp"

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

/// The configuration of a checkpoint without its communicator. Of its strategies only those that change the model stay.
/// `overrides` may add others.
[[nodiscard]] RunConfiguration one_rank_configuration(const CheckpointReader& checkpoint,
                                                      const std::vector<std::string>& overrides,
                                                      PluginRegistry& registry);

/// Texts to continue. A model that reads a source answers them.
struct Continuation {
  /// None is empty.
  std::vector<std::vector<std::int32_t>> prompts;
  /// Number of tokens to add to each.
  std::int64_t tokens = 0;
  SamplingSettings sampling = {};
  RestoredWeights weights = RestoredWeights::trained;
  /// Most texts that are computed together.
  std::int64_t batch = 8;
  /// False computes the whole context for every token, as for a model that cannot be continued.
  bool cached = true;
};

/// Functions that generate() calls while texts grow.
struct GenerationEvents {
  /// A token of prompt number `prompt`. \return false to end this text.
  std::function<bool(std::size_t prompt, std::int32_t token)> on_token;
  /// The text of prompt number `prompt` is complete.
  std::function<void(std::size_t prompt)> on_end = [](std::size_t) {};
  /// A remark for the user, such as that the texts are longer than the context.
  std::function<void(const std::string& text)> on_remark = [](const std::string&) {};
};

/// Continues or answers texts with the parameters of a checkpoint. A text does not depend on those that are generated
/// with it, but for rounding. The model sees the last tokens, up to the size of its context. \throws ConfigurationError
/// if a token is outside of the model's vocabulary, a source is longer than the encoder's context, or the checkpoint
/// lacks the average that is asked for.
void generate(const RunSetup& setup, const CheckpointReader& checkpoint, const Continuation& continuation,
              const GenerationEvents& events);

}  // namespace strata::host
