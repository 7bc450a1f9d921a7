#include "tokenizers/vocabulary_texts.hpp"

#include <algorithm>

namespace strata::host {
namespace {

/// Numbers that a vocabulary leaves out, for each one that it has. So a damaged number does not fill the memory.
constexpr std::size_t kMostGaps = 64;
constexpr std::size_t kSmallVocabulary = std::size_t{1} << 16U;

}  // namespace

VocabularyTexts VocabularyTexts::read_object(const JsonValue& value) {
  if (!value.raw().is_object()) value.refuse("an object of tokens and their numbers");
  const std::size_t limit = value.raw().size() * kMostGaps + kSmallVocabulary;
  std::vector<std::string> texts;
  for (const auto& [text, number] : value.raw().items()) {
    const auto token = static_cast<std::size_t>(value.at(text).token());
    if (token >= limit) value.at(text).refuse("numbers without large gaps");
    if (token >= texts.size()) texts.resize(token + 1);
    if (!texts[token].empty()) value.at(text).refuse("numbers that differ");
    texts[token] = text;
  }
  return {value.raw().size(), std::move(texts)};
}

}  // namespace strata::host
