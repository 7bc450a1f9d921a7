#include <algorithm>
#include <array>
#include <utility>

#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The place of the text that separates words.
enum class SplitBehavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Appends parts of a word from left to right, and joins a part to the one before it as the behavior says.
class PartJoiner {
 public:
  PartJoiner(const WordRange& word, SplitBehavior behavior, std::vector<WordRange>& result)
      : word_(word), behavior_(behavior), result_(result), first_(result.size()) {}

  void add(std::size_t begin, std::size_t end, bool separates) {
    const bool has_previous = result_.size() > first_;
    bool join = false;
    bool removed = false;
    switch (behavior_) {
      case SplitBehavior::removed:
        removed = separates;
        break;
      case SplitBehavior::isolated:
        break;
      case SplitBehavior::merged_with_previous:
        join = separates && !previous_separates_;
        break;
      case SplitBehavior::merged_with_next:
        // A separator that follows a separator stands alone, unless words follow.
        join = !separates && previous_separates_;
        break;
      case SplitBehavior::contiguous:
        join = separates == previous_separates_;
        break;
    }
    previous_separates_ = separates;
    if (removed) return;
    if (join && has_previous) {
      result_.back().end = word_.begin + end;
    } else if (begin < end) {
      result_.push_back({word_.begin + begin, word_.begin + end, word_.is_first && begin == 0});
    }
  }

 private:
  const WordRange& word_;
  SplitBehavior behavior_;
  std::vector<WordRange>& result_;
  std::size_t first_;
  bool previous_separates_ = false;
};

/// Finds the matches in a text, in order and disjoint: `cut.matches`.
using FindMatches = std::function<void(std::string_view text, WordCut& cut)>;
using CutStep = std::function<void(WordCut& cut)>;

/// Cuts each word at matches. \param inverted The words match, and what is between them separates.
CutStep split_at(FindMatches find, SplitBehavior behavior, bool inverted = false) {
  return [=, find = std::move(find)](WordCut& cut) {
    cut.next_words.clear();
    for (const WordRange& word : cut.words) {
      const std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
      find(text, cut);
      PartJoiner parts(word, behavior, cut.next_words);
      std::size_t done = 0;
      for (const TextRange& match : cut.matches) {
        if (match.begin != done) parts.add(done, match.begin, inverted);
        parts.add(match.begin, match.end, !inverted);
        done = match.end;
      }
      if (done != text.size()) parts.add(done, text.size(), inverted);
    }
    cut.words.swap(cut.next_words);
  };
}

FindMatches matches_of(Pattern pattern) {
  return [pattern = std::move(pattern)](std::string_view text, WordCut& cut) {
    pattern.find_all(text, cut.memory, cut.matches);
  };
}

/// Each code point of a kind.
FindMatches characters(std::function<bool(char32_t)> test) {
  return [test = std::move(test)](std::string_view text, WordCut& cut) {
    cut.matches.clear();
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t begin = position;
      if (test(read_code_point(text, position))) cut.matches.push_back({begin, position});
    }
  };
}

/// Rewrites each word. `append` appends the new form of a word to a text.
CutStep change_words(std::function<void(std::string_view word, bool is_first, std::string& text)> append) {
  return [append = std::move(append)](WordCut& cut) {
    cut.next_text.clear();
    for (WordRange& word : cut.words) {
      const std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
      word.begin = cut.next_text.size();
      append(text, word.is_first, cut.next_text);
      word.end = cut.next_text.size();
    }
    cut.text.swap(cut.next_text);
  };
}

SplitBehavior read_behavior(const JsonValue& value) {
  constexpr std::array<std::string_view, 5> kNames{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                   "Contiguous"};
  const auto name = std::ranges::find(kNames, value.string());
  if (name == kNames.end()) value.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return static_cast<SplitBehavior>(name - kNames.begin());
}

using CutSteps = std::vector<CutStep>;

void read_byte_level(const JsonValue& value, CutSteps& steps) {
  if (value.boolean_or("add_prefix_space", true)) {
    steps.push_back(change_words([](std::string_view word, bool, std::string& text) {
      if (word.empty() || word[0] != ' ') text += ' ';
      text += word;
    }));
  }
  if (value.boolean_or("use_regex", true)) {
    steps.push_back(split_at(matches_of(Pattern::expression(kGpt2Words)), SplitBehavior::isolated));
  }
  steps.push_back(
      change_words([](std::string_view word, bool, std::string& text) { append_byte_letters(text, word); }));
}

void read_split(const JsonValue& value, CutSteps& steps) {
  steps.push_back(split_at(matches_of(read_pattern(value.at("pattern"))), read_behavior(value.at("behavior")),
                           value.boolean_or("invert", false)));
}

void read_digits(const JsonValue& value, CutSteps& steps) {
  const bool individual = value.boolean_or("individual_digits", false);
  steps.push_back(split_at(characters(is_numeric), individual ? SplitBehavior::isolated : SplitBehavior::contiguous));
}

void read_punctuation(const JsonValue& value, CutSteps& steps) {
  const auto behavior = value.find("behavior");
  steps.push_back(split_at(characters(is_punctuation), behavior ? read_behavior(*behavior) : SplitBehavior::isolated));
}

void read_delimiter(const JsonValue& value, CutSteps& steps) {
  const std::string text = read_character(value, "delimiter", "");
  std::size_t position = 0;
  const char32_t delimiter = read_code_point(text, position);
  steps.push_back(
      split_at(characters([delimiter](char32_t letter) { return letter == delimiter; }), SplitBehavior::removed));
}

enum class Prefix : std::uint8_t { always, first, never };

Prefix read_prefix(const JsonValue& value) {
  const auto scheme = value.find("prepend_scheme");
  if (!scheme) return value.boolean_or("add_prefix_space", true) ? Prefix::always : Prefix::never;
  const std::string name = scheme->string();
  if (name == "always") return Prefix::always;
  if (name == "first") return Prefix::first;
  if (name != "never") scheme->refuse("always, first, never");
  return Prefix::never;
}

void read_metaspace(const JsonValue& value, CutSteps& steps) {
  const std::string mark = read_character(value, "replacement", std::string(kWordMark));
  const Prefix prefix = read_prefix(value);
  steps.push_back(change_words([=](std::string_view word, bool is_first, std::string& text) {
    const bool wants_mark = prefix == Prefix::always || (prefix == Prefix::first && is_first);
    const bool has_mark = word.substr(0, mark.size()) == mark || word.substr(0, 1) == " ";
    if (wants_mark && !has_mark) text += mark;
    for (const char letter : word) letter == ' ' ? text += mark : text += letter;
  }));
  if (value.boolean_or("split", true)) {
    steps.push_back(split_at(matches_of(Pattern::literal(mark)), SplitBehavior::merged_with_next));
  }
}

void read_white_space(const JsonValue& /*value*/, CutSteps& steps) {
  steps.push_back(split_at(characters(is_white_space), SplitBehavior::removed));
}

void read_words(const JsonValue& value, CutSteps& steps) {
  read_white_space(value, steps);
  steps.push_back(split_at(characters(is_word_character), SplitBehavior::contiguous));
}

void read_bert_words(const JsonValue& value, CutSteps& steps) {
  read_white_space(value, steps);
  steps.push_back(split_at(characters(is_punctuation), SplitBehavior::isolated));
}

using CutReader = void (*)(const JsonValue& value, CutSteps& steps);

const std::map<std::string, CutReader>& step_readers() {
  static const std::map<std::string, CutReader> kReaders = {
      {"ByteLevel", read_byte_level},
      {"Split", read_split},
      {"Digits", read_digits},
      {"Punctuation", read_punctuation},
      {"BertPreTokenizer", read_bert_words},
      {"CharDelimiterSplit", read_delimiter},
      {"Metaspace", read_metaspace},
      {"Whitespace", read_words},
      {"WhitespaceSplit", read_white_space},
  };
  return kReaders;
}

}  // namespace

PreTokenizer::PreTokenizer(const std::optional<JsonValue>& value) {
  for (const JsonValue& step : steps_of(value, "pretokenizers")) {
    reader_of(step_readers(), step)(step, steps);
    reads_bytes = step.at("type").string() == "ByteLevel";
    // Only Metaspace has this key.
    if (step.string_or("prepend_scheme", "") == "first") treats_first = true;
  }
  if (reads_bytes) steps.pop_back();
}

}  // namespace strata::host
