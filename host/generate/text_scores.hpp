#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "compiler/compile.hpp"
#include "runtime/executor.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// A text that is being generated, and how much of it a model has seen.
struct GeneratedText {
  std::vector<std::int32_t> tokens = {};
  /// The text that it answers, for a model with an encoder.
  std::vector<std::int32_t> source = {};
  /// The first token that the model sees, because a text may be longer than the model's context.
  std::int64_t begin = 0;
  /// Tokens from `begin` on whose keys and values are cached.
  std::int64_t cached = 0;

  [[nodiscard]] std::int64_t size() const { return std::ssize(tokens); }
  [[nodiscard]] std::int64_t pending() const { return size() - begin - cached; }
};

/// The steps of generation with a cache: the first tokens of texts, and the next token of each. For a model with an
/// encoder, a step before them computes the source values of one text (SequenceContinuation::reads_source).
struct CachedPrograms {
  Compiled next;
  Compiled prompt;
  std::optional<Compiled> source;

  /// The memory that `next` and `prompt` share.
  [[nodiscard]] std::int64_t arena_bytes() const {
    return std::max(next.plan(0).arena_bytes, prompt.plan(0).arena_bytes);
  }
};

/// The sizes of generation.
struct GenerationSizes {
  /// Texts that are computed together.
  std::int64_t texts = 1;
  /// Tokens of the longest text that is cached, at most the model's context.
  std::int64_t capacity = 1;
  /// Tokens of each text in one step over prompts.
  std::int64_t chunk = 1;
};

/// Compiles the programs. \throws ConfigurationError if the model cannot be continued.
[[nodiscard]] CachedPrograms compile_cached(const RunSetup& setup, const DimSizes& sizes, const Device& device,
                                            const GenerationSizes& generation);

/// Computes the scores of the next token of texts. A rank's device and communicator outlive it.
class TextScores {
 public:
  virtual ~TextScores() = default;
  /// Texts that can be computed together.
  [[nodiscard]] virtual std::int64_t texts() const = 0;
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  /// Computes the scores of the next token of each text that is not null. Texts keep their places from call to call.
  virtual void compute(const std::vector<GeneratedText*>& texts) = 0;
  /// The scores of the text at `place` after compute().
  [[nodiscard]] virtual std::vector<double> scores(std::int64_t place) = 0;
};

/// Everything that computing scores needs of one rank.
struct ScoresRequest {
  const RunSetup& setup;
  /// Gives the parameters their values.
  std::function<void(Executor& executor)> restore;
  Device& device;
  Communicator& communicator;
};

/// Gives a rank's program the parameters of a checkpoint, which outlives the result.
[[nodiscard]] std::function<void(Executor& executor)> restored_from(const RunSetup& setup,
                                                                    const CheckpointReader& checkpoint,
                                                                    RestoredWeights weights);

/// Computes new tokens only, from the keys and values of earlier ones. `programs` outlives the result.
[[nodiscard]] std::unique_ptr<TextScores> make_cached_scores(const ScoresRequest& request,
                                                             const CachedPrograms& programs,
                                                             const GenerationSizes& sizes);

/// Computes the whole window of one text for every token, for models that cannot be continued.
[[nodiscard]] std::unique_ptr<TextScores> make_window_scores(const ScoresRequest& request, const DimSizes& sizes);

}  // namespace strata::host
