#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/huggingface.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"

namespace strata {

/// The text that an encoder reads, such as a sentence to translate. What the decoder generates answers it.
struct GenerationSource {
  /// The input that holds its tokens: i32, [batch `sequence`].
  std::string input = "tokens";
  /// The input that is 1 at its tokens and 0 behind them: i32, [batch `sequence`].
  std::string mask = "mask";
  /// The dimension along which its tokens lie.
  Dim sequence = "seq";
  /// The token before every answer, which is the padding too.
  std::int32_t start = 0;
  /// The token that ends both texts.
  std::int32_t end = 1;
};

/// How a causal model generates text, for `strata generate`. The host reads the scores of the last token and chooses
/// the next one.
struct Generation {
  /// The input that holds the tokens: i32, [batch `sequence`].
  std::string input = "tokens";
  /// The input that holds the positions, i32 [`sequence`] or [batch `sequence`]. Empty: the model reads none.
  std::string positions = {};
  /// The input that holds the numbers of documents, i32 [batch `sequence`]. The text is one document. Empty: the model
  /// reads none.
  std::string documents = {};
  /// The input that is 1 at tokens and 0 behind them, i32 [batch `sequence`]. Empty: the model reads none.
  std::string mask = {};
  /// The dimension along which tokens lie.
  Dim sequence = "seq";
  /// The output that holds the scores of the next token: [batch `sequence` V] for V different tokens.
  std::string output = "logits";
  /// The text that an encoder reads. Without one, a text continues its prompt.
  std::optional<GenerationSource> source = std::nullopt;
};

/// A model turns its options into a logical graph. It contains no parallel code.
class STRATA_API Model {
 public:
  virtual ~Model();
  /// Sizes of dimensions that the options fix, such as {"seq": 128}. The dataset fixes others. Default: none.
  [[nodiscard]] virtual DimSizes sizes() const;
  /// Appends the forward pass. It reads inputs of the dataset and registers a loss. The host has defined "batch", the
  /// dimensions of sizes(), and those that the dataset fixes. \throws ConfigurationError if sizes do not fit.
  virtual void build(GraphBuilder& builder) const = 0;
  /// How the model generates text. Default: it does not.
  [[nodiscard]] virtual std::optional<Generation> generation() const;
};

/// Properties that a smaller model must keep so that a stack of strategies works on it as on the full one.
struct ShrinkRequest {
  /// A divisor of each dimension's size; 1 for absent dimensions. Sizes that the model computes (derive_dim) may miss
  /// it.
  std::map<Dim, std::int64_t> multiples;
  /// True if the stack places blocks on stages, so the number of blocks stays.
  bool keeps_blocks = false;
};

/// The factory of a model plugin.
class STRATA_API ModelFactory : public PluginFactory {
 public:
  ~ModelFactory() override;
  /// Creates the model from checked options. \throws OptionError if options contradict each other.
  [[nodiscard]] virtual std::unique_ptr<Model> create(const Options& options) const = 0;
  /// The options of the smallest model of the same kind that fits `request`, for `strata verify`. It has at least two
  /// layers. Dropout and tied weights stay as they are.
  [[nodiscard]] virtual Options shrink(const Options& options, const ShrinkRequest& request) const = 0;
  /// The form of the models in Hugging Face's files, for `strata import` and `strata export`. The factory owns it.
  /// Null: none.
  [[nodiscard]] virtual const HuggingFaceFormat* huggingface() const;
};

}  // namespace strata
