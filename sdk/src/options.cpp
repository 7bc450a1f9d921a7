#include "strata/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "enum_names.hpp"
#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata {
namespace {

/// The shortest text that parses back to the same number.
std::string shortest(double value) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  return {text, result.ptr};
}

/// A floating-point number as TOML, which never looks like an integer.
std::string toml_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = shortest(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string toml_string(const std::string& text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += {'\\', letter};
    } else if (letter == '\n') {
      quoted += "\\n";
    } else if (letter == '\t') {
      quoted += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      quoted += {'\\', 'u', '0', '0', kHex[code / 16], kHex[code % 16]};
    } else {
      quoted += letter;
    }
  }
  return quoted + '"';
}

template <class T, class Writer>
std::string toml_list(const std::vector<T>& values, const Writer& write) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + write(values[i]);
  return text + "]";
}

/// A value in words for messages, such as "the integer 3".
std::string describe(const OptionValue& value) {
  static constexpr const char* kNames[] = {"the boolean ", "the integer ", "the number ",
                                           "the string ",  "the list ",    "the list "};
  return kNames[value.index()] + to_string(value);
}

std::string range_text(const OptionSpecification& option) {
  // An integer is written without an exponent: 1000000 instead of 1e+06.
  const auto write = [&](double bound) {
    return option.type == OptionType::integer ? std::to_string(static_cast<std::int64_t>(bound)) : shortest(bound);
  };
  if (option.minimum && option.maximum) return " from " + write(*option.minimum) + " to " + write(*option.maximum);
  if (option.minimum) return " of at least " + write(*option.minimum);
  if (option.maximum) return " of at most " + write(*option.maximum);
  return "";
}

bool in_range(const OptionSpecification& option, double value) {
  return std::isfinite(value) && !(option.minimum && value < *option.minimum) &&
         !(option.maximum && value > *option.maximum);
}

bool is_choice(const OptionSpecification& option, const std::string& word) {
  return option.choices.empty() || contains(option.choices, word);
}

/// Converts `value` to the option's type if that is lossless. \return true if it has that type now.
bool convert(OptionType type, OptionValue& value) {
  switch (type) {
    case OptionType::boolean:
      return std::holds_alternative<bool>(value);
    case OptionType::integer:
      return std::holds_alternative<std::int64_t>(value);
    case OptionType::number:
      if (const auto* integer = std::get_if<std::int64_t>(&value)) value = static_cast<double>(*integer);
      return std::holds_alternative<double>(value);
    case OptionType::word:
      return std::holds_alternative<std::string>(value);
    case OptionType::numbers:
      if (const auto* words = std::get_if<std::vector<std::string>>(&value); words != nullptr && words->empty()) {
        value = std::vector<double>{};
      }
      return std::holds_alternative<std::vector<double>>(value);
    case OptionType::words:
      if (const auto* numbers = std::get_if<std::vector<double>>(&value); numbers != nullptr && numbers->empty()) {
        value = std::vector<std::string>{};
      }
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

bool is_accepted(const OptionSpecification& option, const OptionValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return in_range(option, static_cast<double>(*integer));
  if (const auto* number = std::get_if<double>(&value)) return in_range(option, *number);
  if (const auto* word = std::get_if<std::string>(&value)) return is_choice(option, *word);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    return std::ranges::all_of(*numbers, [&](double number) { return in_range(option, number); });
  }
  if (const auto* words = std::get_if<std::vector<std::string>>(&value)) {
    return std::ranges::all_of(*words, [&](const std::string& word) { return is_choice(option, word); });
  }
  return true;
}

std::string refusal(const OptionSpecification& option, const OptionValue& value) {
  std::string message = "found " + describe(value) + "; accepted: " + accepted_values(option);
  if (const auto* word = std::get_if<std::string>(&value)) {
    const std::string near = nearest(*word, option.choices);
    if (!near.empty()) message += "; did you mean " + toml_string(near) + "?";
  }
  return message;
}

template <class T>
const T& get(const std::map<std::string, OptionValue>& values, const std::string& name, OptionType type) {
  const auto found = values.find(name);
  if (found == values.end()) throw ConfigurationError("option '" + name + "' is missing");
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw ConfigurationError("option '" + name + "': found " + describe(found->second) + "; accepted: a value of type " +
                           std::string(to_string(type)));
}

/// Number of edits between two words: insert, delete, replace, swap of neighbours. Ignores case.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const auto lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter; };
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) distance[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) distance[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      distance[i][j] = std::min(
          {distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (same ? std::size_t{0} : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string_view to_string(OptionType type) {
  static constexpr std::string_view kNames[] = {"boolean", "integer",         "number",
                                                "string",  "list of numbers", "list of strings"};
  return name_of(kNames, type);
}

std::string to_string(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return toml_number(*number);
  if (const auto* word = std::get_if<std::string>(&value)) return toml_string(*word);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return toml_list(*numbers, toml_number);
  return toml_list(std::get<std::vector<std::string>>(value), toml_string);
}

std::string accepted_values(const OptionSpecification& option) {
  std::string choices;
  for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : ", ") + toml_string(choice);
  switch (option.type) {
    case OptionType::boolean:
      return "true or false";
    case OptionType::integer:
      return "an integer" + range_text(option);
    case OptionType::number:
      return "a number" + range_text(option);
    case OptionType::word:
      return choices.empty() ? "a string" : "one of " + choices;
    case OptionType::numbers:
      return "a list of numbers" + (range_text(option).empty() ? "" : ", each" + range_text(option));
    case OptionType::words:
      return "a list of strings" + (choices.empty() ? "" : ", each one of " + choices);
  }
  return "";
}

const OptionSpecification* OptionSchema::find(const std::string& name) const {
  const auto found = std::ranges::find(options_, name, &OptionSpecification::name);
  return found == options_.end() ? nullptr : &*found;
}

const OptionSpecification* OptionSchema::find(OptionRole role, OptionType type) const {
  const auto found = std::ranges::find_if(
      options_, [&](const OptionSpecification& option) { return option.role == role && option.type == type; });
  return found == options_.end() ? nullptr : &*found;
}

OptionValue OptionSchema::checked(const OptionSpecification& option, OptionValue value) const {
  if (!convert(option.type, value) || !is_accepted(option, value)) throw ConfigurationError(refusal(option, value));
  return value;
}

Options::Options(const OptionSchema& schema, const std::map<std::string, OptionValue>& given) {
  for (const auto& [name, value] : given) {
    if (schema.find(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const OptionSpecification& option : schema.options()) known.push_back(option.name);
    const std::string near = nearest(name, known);
    throw ConfigurationError("unknown option '" + name + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  for (const OptionSpecification& option : schema.options()) {
    const auto found = given.find(option.name);
    if (found == given.end() && !option.default_value) {
      throw ConfigurationError("option '" + option.name + "' is missing; accepted: " + accepted_values(option));
    }
    try {
      values_[option.name] = schema.checked(option, found == given.end() ? *option.default_value : found->second);
    } catch (const ConfigurationError& error) {
      throw ConfigurationError("option '" + option.name + "': " + error.what());
    }
  }
}

bool Options::boolean(const std::string& name) const { return get<bool>(values_, name, OptionType::boolean); }

std::int64_t Options::integer(const std::string& name) const {
  return get<std::int64_t>(values_, name, OptionType::integer);
}

double Options::number(const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) {
    if (const auto* integer = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*integer);
  }
  return get<double>(values_, name, OptionType::number);
}

const std::string& Options::word(const std::string& name) const {
  return get<std::string>(values_, name, OptionType::word);
}

const std::vector<double>& Options::numbers(const std::string& name) const {
  return get<std::vector<double>>(values_, name, OptionType::numbers);
}

const std::vector<std::string>& Options::words(const std::string& name) const {
  return get<std::vector<std::string>>(values_, name, OptionType::words);
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longest = std::max(word.size(), candidate.size());
    const std::size_t distance = edit_distance(word, candidate);
    const bool near = distance <= std::max<std::size_t>(1, longest / 3) && 2 * distance <= longest;
    if (near && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace strata
