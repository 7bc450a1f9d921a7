#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_manifest.hpp"
#include "data/tokenizer.hpp"
#include "strata/vocabulary.hpp"
#include "tokenizers/text_tokenizer.hpp"

namespace strata::host {

struct RunSetup;

/// The files of the tokenizer that the dataset's option of the role `tokenizer` names, for the run's checkpoints.
/// \return null if it names none. \throws ConfigurationError with file and line if there is no such tokenizer, or if it
/// has more numbers than the model's vocabulary.
[[nodiscard]] std::shared_ptr<const ModelFiles> named_tokenizer(const RunSetup& setup);

/// The tokenizer of a checkpoint: `given` if it names one, else the one in the checkpoint's folder `tokenizer`, else
/// that of the data's vocabulary. \throws ConfigurationError if there is none.
[[nodiscard]] std::unique_ptr<const Tokenizer> checkpoint_tokenizer(const std::filesystem::path& checkpoint,
                                                                    const std::string& given,
                                                                    const std::optional<Vocabulary>& vocabulary);

/// The tokens of a prompt. An empty one gives the token with which the tokenizer begins or ends texts, else a new line,
/// else token 0. `special`: what special tokens in it become.
[[nodiscard]] std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt,
                                                      SpecialInText special);

/// The tokens that end a generated text: those that the checkpoint's configuration lists, and the one that the
/// tokenizer names. Empty for a tokenizer that is no file.
[[nodiscard]] std::set<std::int32_t> end_tokens(const std::filesystem::path& checkpoint, const Tokenizer& tokenizer);

/// The text of a special token, which decoding leaves out. Empty for other tokens.
[[nodiscard]] std::string special_text(const Tokenizer& tokenizer, std::int32_t token);

/// Decodes special tokens too, which `tokenizer` leaves out.
class WithSpecialTokens final : public Tokenizer {
 public:
  explicit WithSpecialTokens(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override;

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace strata::host
