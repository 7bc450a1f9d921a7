#include <memory>
#include <utility>

#include "strata/error.hpp"
#include "strata/vocabulary.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// A text may grow, as NFKD makes 18 letters of one, but a damaged file must not fill the memory.
constexpr std::size_t kMostTotalGrowth = 64;
constexpr std::size_t kShortText = std::size_t{1} << 20U;

using Step = Normalizer::Step;

/// A step that needs no pattern.
Step changer(std::function<std::string(const std::string& text)> change) {
  return {[change = std::move(change)](const std::string& text, PatternMemory&) { return change(text); }};
}

std::string stripped(const std::string& text, bool left, bool right) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!is_white_space(read_code_point(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    const std::size_t last = last_code_point(text, end);
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

/// Leaves out control characters, and makes all white space one kind.
std::string clean_form(const std::string& text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t letter = read_code_point(text, position);
    const bool is_line = letter == U'\t' || letter == U'\n' || letter == U'\r';
    if (letter == 0 || letter == 0xFFFD || (!is_line && is_control(letter))) continue;
    append_code_point(result, is_line || is_white_space(letter) ? U' ' : letter);
  }
  return result;
}

/// Surrounds each ideograph by spaces, so that it is a word.
std::string spaced_ideographs(const std::string& text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    const bool is_word = is_ideograph(read_code_point(text, position));
    if (is_word) result += ' ';
    result.append(text, begin, position - begin);
    if (is_word) result += ' ';
  }
  return result;
}

std::string without_nonspacing_marks(const std::string& text) {
  const std::string parts = normal_form(text, NormalForm::nfd);
  std::string result;
  for (std::size_t position = 0; position < parts.size();) {
    const std::size_t begin = position;
    if (!is_nonspacing_mark(read_code_point(parts, position))) result.append(parts, begin, position - begin);
  }
  return result;
}

Step read_bert(const JsonValue& value) {
  const bool cleans = value.boolean_or("clean_text", true);
  const bool spaces = value.boolean_or("handle_chinese_chars", true);
  const bool lowers = value.boolean_or("lowercase", true);
  const bool strips = value.boolean_or("strip_accents", lowers);
  return changer([=](std::string text) {
    if (cleans) text = clean_form(text);
    if (spaces) text = spaced_ideographs(text);
    if (strips) text = without_nonspacing_marks(text);
    return lowers ? lower_case(text) : text;
  });
}

template <NormalForm form>
Step read_form(const JsonValue& /*value*/) {
  return changer([](const std::string& text) { return normal_form(text, form); });
}

/// Replaces all matches of a pattern.
Step read_replace(const JsonValue& value) {
  const Pattern pattern = read_pattern(value.at("pattern"));
  const std::string content = value.at("content").string();
  return {.change = [=](const std::string& text,
                        PatternMemory& memory) { return pattern.replace_all(text, content, memory); },
          .keeps_beginning =
              [=](const std::string& text, PatternMemory& memory) {
                std::vector<TextRange> matches;
                pattern.find_all(text, memory, matches);
                return !content.empty() || matches.empty() || matches.front().begin > 0 || matches.front().end == 0;
              }};
}

Step read_prepend(const JsonValue& value) {
  return changer([content = value.at("prepend").string()](const std::string& text) {
    return text.empty() ? text : content + text;
  });
}

Step read_strip(const JsonValue& value) {
  const bool left = value.at("strip_left").boolean();
  const bool right = value.at("strip_right").boolean();
  return changer([=](const std::string& text) { return stripped(text, left, right); });
}

Step read_precompiled(const JsonValue& value) {
  const JsonValue map = value.at("precompiled_charsmap");
  try {
    const auto charsmap = std::make_shared<const Charsmap>(Charsmap::of_base64(map.string()));
    return changer([charsmap](const std::string& text) { return charsmap->replace(text); });
  } catch (const ConfigurationError& error) {
    map.fail(error.what());
  }
}

const std::map<std::string, Step (*)(const JsonValue& value)>& normalizer_readers() {
  static const std::map<std::string, Step (*)(const JsonValue& value)> kReaders = {
      {"NFC", read_form<NormalForm::nfc>},
      {"NFD", read_form<NormalForm::nfd>},
      {"NFKC", read_form<NormalForm::nfkc>},
      {"NFKD", read_form<NormalForm::nfkd>},
      {"Lowercase", [](const JsonValue&) { return changer([](const std::string& text) { return lower_case(text); }); }},
      {"StripAccents", [](const JsonValue&) { return changer(without_marks); }},
      {"Nmt", [](const JsonValue&) { return changer(nmt_form); }},
      {"ByteLevel", [](const JsonValue&) { return changer(byte_letters); }},
      {"BertNormalizer", read_bert},
      {"Strip", read_strip},
      {"Replace", read_replace},
      {"Prepend", read_prepend},
      {"Precompiled", read_precompiled},
  };
  return kReaders;
}

}  // namespace

Normalizer::Normalizer(const std::optional<JsonValue>& value) {
  for (const JsonValue& step : steps_of(value, "normalizers")) {
    steps_.push_back(reader_of(normalizer_readers(), step)(step));
  }
}

std::string Normalizer::apply(std::string text, PatternMemory& memory) const {
  const std::size_t most = kMostTotalGrowth * text.size() + kShortText;
  for (const Step& step : steps_) {
    text = step.change(text, memory);
    if (text.size() > most) throw ConfigurationError("the tokenizer's normalizer lets the text grow without bounds");
  }
  return text;
}

bool Normalizer::keeps_beginning(std::string text, PatternMemory& memory) const {
  for (const Step& step : steps_) {
    const bool keeps = step.keeps_beginning
                           ? step.keeps_beginning(text, memory)
                           : text.empty() || !step.change(text.substr(0, code_point_bytes(text[0])), memory).empty();
    if (!keeps) return false;
    text = step.change(text, memory);
  }
  return true;
}

std::vector<JsonValue> steps_of(const std::optional<JsonValue>& value, const char* list) {
  if (!value) return {};
  if (value->string_or("type", "") != "Sequence") return {*value};
  std::vector<JsonValue> steps = value->at(list).elements();
  for (const JsonValue& step : steps) {
    if (step.string_or("type", "") == "Sequence") step.fail("found a Sequence in a Sequence");
  }
  return steps;
}

std::string read_character(const JsonValue& value, const char* key, const std::string& otherwise) {
  std::string text = value.string_or(key, otherwise);
  if (text.empty() || code_point_bytes(text[0]) != text.size()) value.at(key).refuse("one character");
  return text;
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
