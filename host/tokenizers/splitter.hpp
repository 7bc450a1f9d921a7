#pragma once

#include <cstdint>

#include "files/json_value.hpp"
#include "tokenizers/pre_tokenizer.hpp"

namespace strata::host {

/// The place of the text that separates words.
enum class SplitBehavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

[[nodiscard]] SplitBehavior read_split_behavior(const JsonValue& value);

/// Cuts one word at the matches of its text, and appends the words that are not empty. `matches` are relative to
/// `word.begin`, in order and disjoint. \param inverted The words match, and what is between them separates.
void split_word(const WordRange& word, const std::vector<TextRange>& matches, SplitBehavior behavior, bool inverted,
                std::vector<WordRange>& result);

}  // namespace strata::host
