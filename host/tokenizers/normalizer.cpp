#include "tokenizers/normalizer.hpp"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/vocabulary.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/charsmap.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// A text may grow, as NFKD makes 18 letters of one, but a damaged file must not fill the memory.
constexpr std::size_t kMostTotalGrowth = 64;
constexpr std::size_t kShortText = std::size_t{1} << 20U;

using Change = std::function<std::string(const std::string& text, PatternMemory& memory)>;

/// Changes the first code point as if it were alone.
class Changer : public Normalizer {
 public:
  explicit Changer(Change change) : change_(std::move(change)) {}
  std::string apply(std::string text, PatternMemory& memory) const override { return change_(text, memory); }
  bool keeps_beginning(std::string text, PatternMemory& memory) const override {
    return text.empty() || !change_(text.substr(0, code_point_bytes(text[0])), memory).empty();
  }

 private:
  Change change_;
};

std::unique_ptr<const Normalizer> changer(Change change) { return std::make_unique<Changer>(std::move(change)); }

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> steps) : steps_(std::move(steps)) {}

  std::string apply(std::string text, PatternMemory& memory) const override {
    const std::size_t most = kMostTotalGrowth * text.size() + kShortText;
    for (const auto& step : steps_) {
      text = step->apply(std::move(text), memory);
      if (text.size() > most) throw ConfigurationError("the tokenizer's normalizer lets the text grow without bounds");
    }
    return text;
  }

  bool keeps_beginning(std::string text, PatternMemory& memory) const override {
    for (const auto& step : steps_) {
      if (!step->keeps_beginning(text, memory)) return false;
      text = step->apply(std::move(text), memory);
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

/// Replaces all matches of a pattern.
class Replacement : public Normalizer {
 public:
  Replacement(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::string apply(std::string text, PatternMemory& memory) const override {
    return pattern_.replace_all(text, content_, memory);
  }
  bool keeps_beginning(std::string text, PatternMemory& memory) const override {
    std::vector<TextRange> matches;
    pattern_.find_all(text, memory, matches);
    return !content_.empty() || matches.empty() || matches.front().begin > 0 || matches.front().end == 0;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

std::string stripped(const std::string& text, bool left, bool right) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!is_white_space(read_code_point(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    std::size_t last = end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80U) --last;
    std::size_t position = last;
    if (!is_white_space(read_code_point(text, position))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string without_marks(const std::string& text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    if (!is_mark(read_code_point(text, position))) result.append(text, begin, position - begin);
  }
  return result;
}

/// The normalizer of sentencepiece's "nmt" rules: no control characters, and one kind of space.
std::string nmt_form(const std::string& text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t letter = read_code_point(text, position);
    const bool is_control = (letter >= 1 && letter <= 8) || letter == 0xB || (letter >= 0xE && letter <= 0x1F) ||
                            letter == 0x7F || letter == 0x8F || letter == 0x9F;
    if (is_control) continue;
    const bool is_space = letter == 9 || letter == 0xA || letter == 0xC || letter == 0xD || letter == 0x1680 ||
                          (letter >= 0x200B && letter <= 0x200F) || letter == 0x2028 || letter == 0x2029 ||
                          letter == 0x2581 || letter == 0xFEFF || letter == 0xFFFD;
    append_code_point(result, is_space ? U' ' : letter);
  }
  return result;
}

std::unique_ptr<const Normalizer> form_changer(NormalForm form) {
  return changer([form](const std::string& text, PatternMemory&) { return normal_form(text, form); });
}

std::unique_ptr<const Normalizer> read_sequence(const JsonValue& value) {
  const JsonValue list = value.at("normalizers");
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list.element(i).string_or("type", "") == "Sequence") list.element(i).fail("found a Sequence in a Sequence");
    steps.push_back(read_normalizer(list.element(i)));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

std::unique_ptr<const Normalizer> read_replace(const JsonValue& value) {
  return std::make_unique<Replacement>(read_pattern(value.at("pattern")), value.at("content").string());
}

std::unique_ptr<const Normalizer> read_prepend(const JsonValue& value) {
  const std::string content = value.at("prepend").string();
  return changer([content](const std::string& text, PatternMemory&) { return text.empty() ? text : content + text; });
}

std::unique_ptr<const Normalizer> read_strip(const JsonValue& value) {
  const bool left = value.at("strip_left").boolean();
  const bool right = value.at("strip_right").boolean();
  return changer([left, right](const std::string& text, PatternMemory&) { return stripped(text, left, right); });
}

std::unique_ptr<const Normalizer> read_precompiled(const JsonValue& value) {
  const JsonValue map = value.at("precompiled_charsmap");
  try {
    const auto charsmap = std::make_shared<const Charsmap>(Charsmap::of_base64(map.string()));
    return changer([charsmap](const std::string& text, PatternMemory&) { return charsmap->replace(text); });
  } catch (const ConfigurationError& error) {
    map.fail(error.what());
  }
}

std::unique_ptr<const Normalizer> byte_letter_changer() {
  return changer([](const std::string& text, PatternMemory&) {
    std::string letters;
    append_byte_letters(letters, text);
    return letters;
  });
}

using NormalizerReader = std::unique_ptr<const Normalizer> (*)(const JsonValue& value);

const std::map<std::string, NormalizerReader>& normalizer_readers() {
  static const std::map<std::string, NormalizerReader> kNormalizerReaders = {
      {"Sequence", read_sequence},
      {"NFC", [](const JsonValue&) { return form_changer(NormalForm::nfc); }},
      {"NFD", [](const JsonValue&) { return form_changer(NormalForm::nfd); }},
      {"NFKC", [](const JsonValue&) { return form_changer(NormalForm::nfkc); }},
      {"NFKD", [](const JsonValue&) { return form_changer(NormalForm::nfkd); }},
      {"Lowercase",
       [](const JsonValue&) {
         return changer([](const std::string& text, PatternMemory&) { return lower_case(text); });
       }},
      {"StripAccents",
       [](const JsonValue&) {
         return changer([](const std::string& text, PatternMemory&) { return without_marks(text); });
       }},
      {"Nmt",
       [](const JsonValue&) {
         return changer([](const std::string& text, PatternMemory&) { return nmt_form(text); });
       }},
      {"ByteLevel", [](const JsonValue&) { return byte_letter_changer(); }},
      {"Strip", read_strip},
      {"Replace", read_replace},
      {"Prepend", read_prepend},
      {"Precompiled", read_precompiled},
  };
  return kNormalizerReaders;
}

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const JsonValue& value) {
  const JsonValue type = value.at("type");
  const auto reader = normalizer_readers().find(type.string());
  if (reader != normalizer_readers().end()) return reader->second(value);
  std::string names;
  for (const auto& [name, unused] : normalizer_readers()) names += (names.empty() ? "" : ", ") + name;
  type.refuse(names);
}

Pattern read_pattern(const JsonValue& value) {
  if (const auto literal = value.find("String")) return Pattern::literal(literal->string());
  const auto expression = value.find("Regex");
  if (!expression) value.fail("accepted: {\"String\": …} or {\"Regex\": …}");
  try {
    return Pattern::expression(expression->string());
  } catch (const ConfigurationError& error) {
    expression->fail(error.what());
  }
}

}  // namespace strata::host
