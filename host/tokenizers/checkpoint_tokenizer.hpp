#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "strata/vocabulary.hpp"
#include "train/data/tokenizer.hpp"

namespace strata::host {

/// The tokenizer of a checkpoint: `given` if it names one, else the one in the checkpoint's folder `tokenizer`, else
/// that of the data's vocabulary. \throws ConfigurationError if there is none.
[[nodiscard]] std::unique_ptr<const Tokenizer> checkpoint_tokenizer(const std::filesystem::path& checkpoint,
                                                                    const std::string& given,
                                                                    const std::optional<Vocabulary>& vocabulary);

/// The tokens of a prompt. An empty one gives the token with which the tokenizer begins or ends texts, else a new line,
/// else token 0.
[[nodiscard]] std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt);

}  // namespace strata::host
