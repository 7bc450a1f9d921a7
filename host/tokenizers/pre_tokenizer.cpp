#include "tokenizers/pre_tokenizer.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "strata/error.hpp"
#include "strata/vocabulary.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/normalizer.hpp"
#include "tokenizers/splitter.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using CharacterTest = std::function<bool(char32_t)>;

/// Cuts at what a pattern matches.
class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, SplitBehavior behavior, bool inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}

  void apply(WordCut& cut) const override {
    cut.next_words.clear();
    for (const WordRange& word : cut.words) {
      const std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
      pattern_.find_all(text, cut.memory, cut.matches);
      split_word(word, cut.matches, behavior_, inverted_, cut.next_words);
    }
    cut.words.swap(cut.next_words);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool inverted_;
};

/// Cuts at code points of a kind.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(CharacterTest test, SplitBehavior behavior) : test_(std::move(test)), behavior_(behavior) {}

  void apply(WordCut& cut) const override {
    cut.next_words.clear();
    for (const WordRange& word : cut.words) {
      const std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
      cut.matches.clear();
      for (std::size_t position = 0; position < text.size();) {
        const std::size_t begin = position;
        if (test_(read_code_point(text, position))) cut.matches.push_back({begin, position});
      }
      split_word(word, cut.matches, behavior_, false, cut.next_words);
    }
    cut.words.swap(cut.next_words);
  }

 private:
  CharacterTest test_;
  SplitBehavior behavior_;
};

/// Rewrites each word.
class WordChange : public PreTokenizer {
 public:
  /// Appends the new form of a word to a text.
  using Append = std::function<void(std::string_view word, bool is_first, std::string& text)>;
  explicit WordChange(Append append) : append_(std::move(append)) {}

  void apply(WordCut& cut) const override {
    cut.next_text.clear();
    for (WordRange& word : cut.words) {
      const std::string_view text = std::string_view(cut.text).substr(word.begin, word.end - word.begin);
      word.begin = cut.next_text.size();
      append_(text, word.is_first, cut.next_text);
      word.end = cut.next_text.size();
    }
    cut.text.swap(cut.next_text);
  }

 private:
  Append append_;
};

using Steps = std::vector<std::unique_ptr<const PreTokenizer>>;

Pattern built_in(std::string_view expression) { return Pattern::expression(expression); }

void read_byte_level(const JsonValue& value, Steps& steps) {
  if (value.boolean_or("add_prefix_space", true)) {
    steps.push_back(std::make_unique<WordChange>([](std::string_view word, bool, std::string& text) {
      if (word.empty() || word[0] != ' ') text += ' ';
      text += word;
    }));
  }
  if (value.boolean_or("use_regex", true)) {
    steps.push_back(std::make_unique<PatternSplit>(built_in(kGpt2Words), SplitBehavior::isolated, false));
  }
  steps.push_back(std::make_unique<WordChange>(
      [](std::string_view word, bool, std::string& text) { append_byte_letters(text, word); }));
}

void read_split(const JsonValue& value, Steps& steps) {
  steps.push_back(std::make_unique<PatternSplit>(
      read_pattern(value.at("pattern")), read_split_behavior(value.at("behavior")), value.boolean_or("invert", false)));
}

void read_digits(const JsonValue& value, Steps& steps) {
  const bool individual = value.boolean_or("individual_digits", false);
  steps.push_back(
      std::make_unique<CharacterSplit>(is_numeric, individual ? SplitBehavior::isolated : SplitBehavior::contiguous));
}

void read_punctuation(const JsonValue& value, Steps& steps) {
  const auto behavior = value.find("behavior");
  steps.push_back(std::make_unique<CharacterSplit>(
      is_punctuation, behavior ? read_split_behavior(*behavior) : SplitBehavior::isolated));
}

void read_delimiter(const JsonValue& value, Steps& steps) {
  const JsonValue key = value.at("delimiter");
  const std::string text = key.string();
  std::size_t position = 0;
  const char32_t delimiter = text.empty() ? 0 : read_code_point(text, position);
  if (text.empty() || position != text.size()) key.refuse("one character");
  steps.push_back(std::make_unique<CharacterSplit>([delimiter](char32_t letter) { return letter == delimiter; },
                                                   SplitBehavior::removed));
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

void read_metaspace(const JsonValue& value, Steps& steps) {
  const std::string mark = value.string_or("replacement", "\xE2\x96\x81");
  if (mark.empty() || code_point_bytes(mark[0]) != mark.size()) value.at("replacement").refuse("one character");
  const Prefix prefix = read_prefix(value);
  steps.push_back(std::make_unique<WordChange>([=](std::string_view word, bool is_first, std::string& text) {
    const bool wants_mark = prefix == Prefix::always || (prefix == Prefix::first && is_first);
    const bool has_mark = word.substr(0, mark.size()) == mark || word.substr(0, 1) == " ";
    if (wants_mark && !has_mark) text += mark;
    for (const char letter : word) letter == ' ' ? text += mark : text += letter;
  }));
  if (value.boolean_or("split", true)) {
    steps.push_back(std::make_unique<PatternSplit>(Pattern::literal(mark), SplitBehavior::merged_with_next, false));
  }
}

using StepReader = void (*)(const JsonValue& value, Steps& steps);

const std::map<std::string, StepReader>& step_readers() {
  static const std::map<std::string, StepReader> kStepReaders = {
      {"ByteLevel", read_byte_level},
      {"Split", read_split},
      {"Digits", read_digits},
      {"Punctuation", read_punctuation},
      {"CharDelimiterSplit", read_delimiter},
      {"Metaspace", read_metaspace},
      {"Whitespace",
       [](const JsonValue&, Steps& steps) {
         steps.push_back(std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::removed));
         steps.push_back(std::make_unique<CharacterSplit>(is_word_character, SplitBehavior::contiguous));
       }},
      {"WhitespaceSplit",
       [](const JsonValue&, Steps& steps) {
         steps.push_back(std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::removed));
       }},
  };
  return kStepReaders;
}

/// \return the type of the step.
std::string read_step(const JsonValue& value, PreTokenizerSteps& result) {
  const JsonValue type = value.at("type");
  const auto reader = step_readers().find(type.string());
  if (reader == step_readers().end()) {
    std::string names = "Sequence";
    for (const auto& [name, unused] : step_readers()) names += ", " + name;
    type.refuse(names);
  }
  reader->second(value, result.steps);
  // Only Metaspace has this key.
  if (value.string_or("prepend_scheme", "") == "first") result.treats_first = true;
  return reader->first;
}

}  // namespace

PreTokenizerSteps read_pre_tokenizer(const JsonValue& value) {
  PreTokenizerSteps result;
  std::string last;
  if (value.string_or("type", "") == "Sequence") {
    const JsonValue list = value.at("pretokenizers");
    for (std::size_t i = 0; i < list.size(); ++i) last = read_step(list.element(i), result);
  } else {
    last = read_step(value, result);
  }
  result.reads_bytes = last == "ByteLevel";
  if (result.reads_bytes) result.steps.pop_back();
  return result;
}

}  // namespace strata::host
