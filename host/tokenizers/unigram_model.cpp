#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "strata/error.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/flat_table.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// The score of an unknown letter is this much below the lowest score of a token.
constexpr double kUnknownPenalty = 10;
/// Bytes of a token. A text takes time in proportion to the longest one.
constexpr std::size_t kLongestPiece = 4096;

/// The number that Hugging Face's library reads from the same text. It divides the digits, as a number, by a power of
/// ten, so the last bit may differ from the nearest number. That bit decides between splits with equal sums of scores.
double library_score(double score) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), score, std::chars_format::scientific);
  std::uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (bool behind_point = false; at != written.ptr && *at != 'e'; ++at) {
    if (*at == '.') behind_point = true;
    if (*at < '0' || *at > '9') continue;
    digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    exponent -= behind_point ? 1 : 0;
  }
  int scale = 0;
  if (at == written.ptr) return score;
  at += at[1] == '+' ? 2 : 1;
  if (std::from_chars(at, written.ptr, scale).ec != std::errc{}) return score;
  exponent += scale;
  if (exponent > 22 || exponent < -300) return score;
  const std::string power = "1e" + std::to_string(std::abs(exponent));
  double factor = 1;
  (void)std::from_chars(power.data(), power.data() + power.size(), factor);
  const double size = exponent < 0 ? static_cast<double>(digits) / factor : static_cast<double>(digits) * factor;
  return std::copysign(size, score);
}

/// Chooses the tokens of a word whose scores have the largest sum.
class UnigramModel : public TokenModel {
 public:
  UnigramModel(std::vector<std::string> pieces, std::vector<double> scores, std::optional<std::int32_t> unknown,
               bool falls_back_to_bytes, bool reads_bytes)
      : TokenModel(VocabularyTexts(std::move(pieces))),
        scores_(std::move(scores)),
        unknown_(unknown),
        falls_back_to_bytes_(falls_back_to_bytes),
        reads_bytes_(reads_bytes) {
    const std::vector<std::string>& texts = vocabulary().texts();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!texts[i].empty()) trie_.add(texts[i], static_cast<std::int32_t>(i));
    }
    if (!scores_.empty()) unknown_score_ = *std::ranges::min_element(scores_) - kUnknownPenalty;
    for (unsigned byte = 0; byte < 256; ++byte) fallback_[byte] = vocabulary().find(byte_token_name(byte));
  }

  void split(std::string_view bytes_or_text, ModelMemory& memory, std::vector<std::int32_t>& tokens) const override {
    std::string_view word = bytes_or_text;
    if (reads_bytes_) {
      memory.text.clear();
      append_byte_letters(memory.text, bytes_or_text);
      word = memory.text;
    }
    find_path(word, memory.path);
    const std::size_t first = tokens.size();
    // From the end of the word to its begin. Neighbouring unknown letters are one text.
    for (std::size_t end = word.size(); end > 0;) {
      const bool is_unknown = memory.path[end].token == unknown_;
      auto begin = static_cast<std::size_t>(memory.path[end].begin);
      while (is_unknown && begin > 0 && memory.path[begin].token == unknown_) {
        begin = static_cast<std::size_t>(memory.path[begin].begin);
      }
      if (is_unknown) {
        add_unknown(word.substr(begin, end - begin), tokens);
      } else {
        tokens.push_back(memory.path[end].token);
      }
      end = begin;
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
  }

 private:
  void find_path(std::string_view word, std::vector<PathNode>& path) const {
    path.assign(word.size() + 1, PathNode{});
    for (std::size_t begin = 0; begin < word.size();) {
      const double score_here = path[begin].score;
      const std::size_t letter_bytes = code_point_bytes(word[begin]);
      bool has_letter = false;
      const auto extend = [&](std::size_t bytes, std::int32_t token, double score) {
        PathNode& node = path[begin + bytes];
        if (node.begin >= 0 && score <= node.score) return;
        node = {score, static_cast<std::int64_t>(begin), token};
      };
      trie_.each_prefix(word.substr(begin), [&](std::size_t bytes, std::int32_t token) {
        extend(bytes, token, scores_[static_cast<std::size_t>(token)] + score_here);
        has_letter = has_letter || bytes == letter_bytes;
      });
      if (!has_letter) {
        if (!unknown_) {
          throw ConfigurationError("the tokenizer has no token for '" + std::string(word.substr(begin, letter_bytes)) +
                                   "', and its model.unk_id names none for unknown letters");
        }
        extend(letter_bytes, *unknown_, unknown_score_ + score_here);
      }
      begin += letter_bytes;
    }
  }

  /// The caller reverses the order.
  void add_unknown(std::string_view text, std::vector<std::int32_t>& tokens) const {
    const std::int32_t known = vocabulary().find(text);
    const auto fallback = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
    if (known >= 0) {
      tokens.push_back(known);
    } else if (falls_back_to_bytes_ && std::ranges::all_of(text, [&](char byte) { return fallback(byte) >= 0; })) {
      for (std::size_t at = text.size(); at > 0; --at) tokens.push_back(fallback(text[at - 1]));
    } else {
      tokens.push_back(*unknown_);
    }
  }

  std::vector<double> scores_;
  std::optional<std::int32_t> unknown_;
  bool falls_back_to_bytes_;
  bool reads_bytes_;
  double unknown_score_ = 0;
  ByteTrie trie_;
  std::array<std::int32_t, 256> fallback_{};
};

}  // namespace

std::unique_ptr<const TokenModel> read_unigram_model(const JsonValue& value, bool reads_bytes) {
  const JsonValue list = value.at("vocab");
  std::vector<std::string> pieces;
  std::vector<double> scores;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const nlohmann::json& entry = list.raw()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      list.element(i).refuse("[\"TEXT\", SCORE]");
    }
    pieces.push_back(entry[0].get<std::string>());
    scores.push_back(library_score(entry[1].get<double>()));
    if (pieces.back().size() > kLongestPiece) {
      list.element(i).fail("found a token of " + std::to_string(pieces.back().size()) + " bytes; accepted: up to " +
                           std::to_string(kLongestPiece));
    }
  }
  if (pieces.empty()) list.refuse("at least one token");
  std::optional<std::int32_t> unknown;
  if (const auto key = value.find("unk_id")) {
    unknown = key->token();
    if (static_cast<std::size_t>(*unknown) >= pieces.size()) key->refuse("a token of model.vocab");
  }
  return std::make_unique<UnigramModel>(std::move(pieces), std::move(scores), unknown,
                                        value.boolean_or("byte_fallback", false), reads_bytes);
}

}  // namespace strata::host
