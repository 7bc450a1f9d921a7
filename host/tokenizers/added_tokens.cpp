#include <algorithm>

#include "tokenizers/text_steps.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// Bytes of an added token. A search takes time in proportion to the longest one.
constexpr std::size_t kLongestToken = 4096;

char32_t code_point_at(std::string_view text, std::size_t position) { return read_code_point(text, position); }

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool left = begin == 0 || !is_word_character(code_point_at(text, last_code_point(text, begin)));
  const bool right = end == text.size() || !is_word_character(code_point_at(text, end));
  return left && right;
}

std::size_t without_space_before(std::string_view text, std::size_t begin) {
  while (begin > 0) {
    const std::size_t previous = last_code_point(text, begin);
    if (!is_white_space(code_point_at(text, previous))) break;
    begin = previous;
  }
  return begin;
}

std::size_t with_space_after(std::string_view text, std::size_t end) {
  while (end < text.size() && is_white_space(code_point_at(text, end))) end += code_point_bytes(text[end]);
  return end;
}

AddedToken read_added_token(const JsonValue& value) {
  AddedToken token{value.at("id").token(), value.at("content").string()};
  token.special = value.boolean_or("special", false);
  token.strips_left = value.boolean_or("lstrip", false);
  token.strips_right = value.boolean_or("rstrip", false);
  token.single_word = value.boolean_or("single_word", false);
  token.normalized = value.boolean_or("normalized", !token.special);
  if (token.text.size() > kLongestToken) {
    value.at("content").fail("found " + std::to_string(token.text.size()) + " bytes; accepted: up to " +
                             std::to_string(kLongestToken));
  }
  return token;
}

}  // namespace

AddedTokens::AddedTokens(const std::optional<JsonValue>& list, const VocabularyTexts& vocabulary,
                         const Normalizer& normalizer) {
  PatternMemory memory;
  const auto count = static_cast<std::int32_t>(vocabulary.count());
  for (const JsonValue& value : list ? list->elements() : std::vector<JsonValue>{}) {
    const AddedToken token = read_added_token(value);
    // Hugging Face leaves empty tokens out, too.
    if (token.text.empty()) continue;
    const std::int32_t in_model = vocabulary.find(token.text);
    const auto number = static_cast<std::size_t>(token.number);
    const bool is_taken = number < vocabulary.texts().size() && !vocabulary.texts()[number].empty();
    if ((in_model >= 0 && in_model != token.number) || (in_model < 0 && is_taken)) {
      value.at("id").refuse("the number of '" + token.text + "' in model.vocab, or a number that model.vocab has not");
    }
    // Hugging Face counts the tokens that the model lacks, and does not read their numbers.
    const std::int32_t next = std::max(count, end());
    const bool is_known = in_model >= 0 || tokens_.contains(token.number);
    if (!is_known && token.number != next) value.at("id").refuse(std::to_string(next) + ", which is the next number");
    const auto [entry, is_new] = tokens_.emplace(token.number, token);
    if (!is_new && entry->second.text != token.text) value.at("id").refuse("numbers that differ");
    const std::string wanted = token.normalized ? normalizer.apply(token.text, memory) : token.text;
    if (!wanted.empty()) (token.normalized ? normalized_ : plain_).add(wanted, token.number);
  }
}

bool AddedTokens::cut(std::string_view text, bool normalized, bool skips_special, std::vector<TextPart>& parts) const {
  const ByteTrie& trie = normalized ? normalized_ : plain_;
  bool has_special = false;
  std::size_t done = 0;
  for (std::size_t at = 0; !trie.empty() && at < text.size();) {
    std::size_t bytes = 0;
    std::int32_t number = -1;
    if (trie.begins(text[at])) {
      trie.each_prefix(text.substr(at), [&](std::size_t size, std::int32_t token) {
        bytes = size;
        number = token;
      });
    }
    if (number < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_.at(number);
    std::size_t begin = at;
    std::size_t end = at + bytes;
    at = end;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    has_special = has_special || token.special;
    if (token.special && skips_special) continue;
    if (token.strips_left) begin = std::max(done, without_space_before(text, begin));
    if (token.strips_right) end = with_space_after(text, end);
    if (done < begin) parts.push_back({done, begin, -1});
    parts.push_back({begin, end, number});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
  return has_special;
}

const AddedToken* AddedTokens::find(std::int32_t number) const {
  const auto found = tokens_.find(number);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::int32_t AddedTokens::token_of(std::string_view text) const {
  const auto found = std::ranges::find_if(tokens_, [&](const auto& each) { return each.second.text == text; });
  return found == tokens_.end() ? -1 : found->first;
}

std::int32_t AddedTokens::end() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }

}  // namespace strata::host
