#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/flat_table.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// Symbols of a word up to which a scan of all pairs finds the next join faster than a heap.
constexpr std::int32_t kShortWord = 64;

struct BpeOptions {
  /// The token of unknown letters, or -1.
  std::int32_t unknown = -1;
  bool fuses_unknown = false;
  bool falls_back_to_bytes = false;
  bool ignores_merges = false;
  std::string prefix;
  std::string suffix;
};

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

/// The rank and the result of a join.
struct Join {
  std::uint32_t rank = kNoRank;
  std::int32_t token = -1;
};

/// The joins of pairs of tokens. Of equal pairs, the last has the rank.
class PairTable {
 public:
  explicit PairTable(std::size_t pairs) : joins_(pairs) {}
  void set(std::int32_t left, std::int32_t right, Join join) { joins_.at(key(left, right)) = join; }
  [[nodiscard]] Join find(std::int32_t left, std::int32_t right) const { return joins_.find(key(left, right)); }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U | static_cast<std::uint32_t>(right);
  }

  FlatTable<Join> joins_;
};

/// True if a mark follows a letter that is none.
bool has_inner_mark(std::string_view text) {
  for (std::size_t at = text.find(kWordMark); at != std::string_view::npos; at = text.find(kWordMark, at + 1)) {
    if (at != 0 && (at < kWordMark.size() || text.substr(at - kWordMark.size(), kWordMark.size()) != kWordMark)) {
      return true;
    }
  }
  return false;
}

/// Byte pair encoding: neighbouring symbols are joined, the pair of the lowest rank first, the leftmost of equal ones.
class BpeModel : public TokenModel {
 public:
  BpeModel(VocabularyTexts vocabulary, PairTable pairs, BpeOptions options, bool reads_bytes)
      : TokenModel(std::move(vocabulary)), pairs_(std::move(pairs)), options_(std::move(options)) {
    const std::vector<std::string>& texts = this->vocabulary().texts();
    respects_word_marks_ = !reads_bytes && token_of(kWordMark) >= 0 && options_.prefix.empty() &&
                           options_.suffix.empty() && !options_.ignores_merges &&
                           std::ranges::none_of(texts, has_inner_mark);
    if (reads_bytes) make_byte_tokens();
    for (unsigned byte = 0; byte < 256; ++byte) fallback_[byte] = token_of(byte_token_name(byte));
  }

  void split(std::string_view word, ModelMemory& memory, std::vector<std::int32_t>& tokens) const override {
    if (options_.ignores_merges) {
      const std::int32_t whole = bytes_ ? bytes_->find(word) : token_of(word);
      if (whole >= 0) {
        tokens.push_back(whole);
        return;
      }
    }
    memory.symbols.clear();
    if (bytes_ && options_.prefix.empty() && options_.suffix.empty()) {
      add_bytes(word, memory);
    } else {
      add_letters(word, memory);
    }
    const auto count = static_cast<std::int32_t>(memory.symbols.size());
    count <= kShortWord ? join_by_scan(memory.symbols) : join_by_heap(memory);
    for (std::int32_t at = count == 0 ? -1 : 0; at >= 0; at = memory.symbols[static_cast<std::size_t>(at)].next) {
      tokens.push_back(memory.symbols[static_cast<std::size_t>(at)].token);
    }
  }

  bool respects_word_marks() const override { return respects_word_marks_; }

 private:
  [[nodiscard]] std::int32_t token_of(std::string_view text) const { return vocabulary().find(text); }

  /// The vocabulary again, with bytes instead of their letters.
  void make_byte_tokens() {
    std::vector<std::string> bytes;
    for (const std::string& text : vocabulary().texts()) bytes.push_back(bytes_of_letters(text).value_or(""));
    bytes_.emplace(std::move(bytes));
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char letter = static_cast<char>(byte);
      byte_tokens_[byte] = bytes_->find({&letter, 1});
    }
  }

  static void add(std::int32_t token, ModelMemory& memory) {
    const auto at = static_cast<std::int32_t>(memory.symbols.size());
    if (at > 0) memory.symbols.back().next = at;
    memory.symbols.push_back({token, at - 1, -1, kNoRank});
  }

  void add_bytes(std::string_view word, ModelMemory& memory) const {
    std::int32_t unknown = -1;
    for (const char letter : word) {
      const std::int32_t token = byte_tokens_[static_cast<unsigned char>(letter)];
      add_letter(token, token >= 0 ? std::string() : byte_letters({&letter, 1}), unknown, memory);
    }
    add_pending(unknown, memory);
  }

  void add_letters(std::string_view bytes_or_text, ModelMemory& memory) const {
    std::string_view word = bytes_or_text;
    if (bytes_) {
      memory.text.clear();
      append_byte_letters(memory.text, bytes_or_text);
      word = memory.text;
    }
    const bool plain = options_.prefix.empty() && options_.suffix.empty();
    std::int32_t unknown = -1;
    std::string affixed;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      at += code_point_bytes(word[at]);
      std::string_view letter = word.substr(begin, at - begin);
      if (!plain) {
        affixed =
            (begin == 0 ? "" : options_.prefix) + std::string(letter) + (at == word.size() ? options_.suffix : "");
        letter = affixed;
      }
      add_letter(token_of(letter), letter, unknown, memory);
    }
    add_pending(unknown, memory);
  }

  void add_letter(std::int32_t token, std::string_view letter, std::int32_t& unknown, ModelMemory& memory) const {
    if (token < 0) return add_missing(letter, unknown, memory);
    add_pending(unknown, memory);
    add(token, memory);
  }

  static void add_pending(std::int32_t& unknown, ModelMemory& memory) {
    if (unknown >= 0) add(unknown, memory);
    unknown = -1;
  }

  /// Adds a letter that the vocabulary lacks: as bytes, as the unknown token, or not at all.
  void add_missing(std::string_view letter, std::int32_t& unknown, ModelMemory& memory) const {
    const auto fallback = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
    if (options_.falls_back_to_bytes && std::ranges::all_of(letter, [&](char byte) { return fallback(byte) >= 0; })) {
      for (const char byte : letter) add(fallback(byte), memory);
      return;
    }
    if (options_.unknown < 0) return;
    if (!options_.fuses_unknown) add_pending(unknown, memory);
    unknown = options_.unknown;
  }

  [[nodiscard]] std::uint32_t rank(const std::vector<Symbol>& symbols, std::int32_t at) const {
    const Symbol& symbol = symbols[static_cast<std::size_t>(at)];
    if (symbol.next < 0) return kNoRank;
    return pairs_.find(symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token).rank;
  }

  /// Joins the symbol at `at` with the next one.
  static void join(std::vector<Symbol>& symbols, std::int32_t at, std::int32_t token) {
    Symbol& symbol = symbols[static_cast<std::size_t>(at)];
    Symbol& gone = symbols[static_cast<std::size_t>(symbol.next)];
    symbol.token = token;
    symbol.next = gone.next;
    gone.token = -1;
    if (symbol.next >= 0) symbols[static_cast<std::size_t>(symbol.next)].previous = at;
  }

  void join_by_scan(std::vector<Symbol>& symbols) const {
    for (std::int32_t at = 0; at < std::ssize(symbols); ++at)
      symbols[static_cast<std::size_t>(at)].rank = rank(symbols, at);
    while (!symbols.empty()) {
      std::int32_t best = 0;
      std::uint32_t lowest = kNoRank;
      for (std::int32_t at = 0; at >= 0; at = symbols[static_cast<std::size_t>(at)].next) {
        if (symbols[static_cast<std::size_t>(at)].rank >= lowest) continue;
        lowest = symbols[static_cast<std::size_t>(at)].rank;
        best = at;
      }
      if (lowest == kNoRank) return;
      Symbol& symbol = symbols[static_cast<std::size_t>(best)];
      join(symbols, best, pairs_.find(symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token).token);
      symbol.rank = rank(symbols, best);
      if (symbol.previous >= 0)
        symbols[static_cast<std::size_t>(symbol.previous)].rank = rank(symbols, symbol.previous);
    }
  }

  void join_by_heap(ModelMemory& memory) const {
    std::vector<Symbol>& symbols = memory.symbols;
    std::vector<JoinCandidate>& heap = memory.candidates;
    const auto later = [](const JoinCandidate& a, const JoinCandidate& b) {
      return std::pair(a.rank, a.position) > std::pair(b.rank, b.position);
    };
    const auto candidate = [&](std::int32_t at) -> std::optional<JoinCandidate> {
      const std::uint32_t pair_rank = rank(symbols, at);
      if (pair_rank == kNoRank) return std::nullopt;
      const Symbol& symbol = symbols[static_cast<std::size_t>(at)];
      return JoinCandidate{pair_rank, at, symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token};
    };
    heap.clear();
    for (std::int32_t at = 0; at < std::ssize(symbols); ++at) {
      if (const auto pair = candidate(at)) heap.push_back(*pair);
    }
    std::make_heap(heap.begin(), heap.end(), later);
    const auto push = [&](std::int32_t at) {
      if (const auto pair = candidate(at)) {
        heap.push_back(*pair);
        std::push_heap(heap.begin(), heap.end(), later);
      }
    };
    while (!heap.empty()) {
      const JoinCandidate top = heap.front();
      std::pop_heap(heap.begin(), heap.end(), later);
      heap.pop_back();
      // A join of one of its symbols has made the candidate obsolete.
      const Symbol& symbol = symbols[static_cast<std::size_t>(top.position)];
      if (symbol.token != top.left || symbol.next < 0 ||
          symbols[static_cast<std::size_t>(symbol.next)].token != top.right) {
        continue;
      }
      join(symbols, top.position, pairs_.find(top.left, top.right).token);
      if (symbol.previous >= 0) push(symbol.previous);
      push(top.position);
    }
  }

  PairTable pairs_;
  BpeOptions options_;
  bool respects_word_marks_ = false;
  /// Set if words are bytes.
  std::optional<VocabularyTexts> bytes_;
  std::array<std::int32_t, 256> byte_tokens_{};
  std::array<std::int32_t, 256> fallback_{};
};

/// A merge is "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const JsonValue& list, std::size_t index) {
  const nlohmann::json& merge = list.raw()[index];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  list.element(index).refuse("\"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"]");
}

PairTable read_merges(const JsonValue& list, const VocabularyTexts& vocabulary, std::size_t prefix_bytes) {
  const std::size_t count = list.size();
  PairTable pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [left, right] = read_merge(list, i);
    const std::int32_t left_token = vocabulary.find(left);
    const std::int32_t right_token = vocabulary.find(right);
    const std::int32_t joined = right.size() < prefix_bytes ? -1 : vocabulary.find(left + right.substr(prefix_bytes));
    if (left_token < 0 || right_token < 0 || joined < 0) {
      list.element(i).refuse("tokens of model.vocab whose join is one, too");
    }
    pairs.set(left_token, right_token, {static_cast<std::uint32_t>(i), joined});
  }
  return pairs;
}

}  // namespace

std::unique_ptr<const TokenModel> read_bpe_model(const JsonValue& value, bool reads_bytes) {
  if (const auto dropout = value.find("dropout"); dropout && dropout->number() != 0) {
    dropout->refuse("null or 0, so that a text has one form");
  }
  BpeOptions options;
  options.prefix = value.string_or("continuing_subword_prefix", "");
  options.suffix = value.string_or("end_of_word_suffix", "");
  options.fuses_unknown = value.boolean_or("fuse_unk", false);
  options.falls_back_to_bytes = value.boolean_or("byte_fallback", false);
  options.ignores_merges = value.boolean_or("ignore_merges", false);
  VocabularyTexts vocabulary = read_vocabulary(value.at("vocab"));
  if (const auto unknown = value.find("unk_token")) {
    const std::int32_t token = vocabulary.find(unknown->string());
    if (token < 0) unknown->refuse("a token of model.vocab");
    options.unknown = token;
  }
  PairTable pairs = read_merges(value.at("merges"), vocabulary, options.prefix.size());
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(pairs), std::move(options), reads_bytes);
}

}  // namespace strata::host
