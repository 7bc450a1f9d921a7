#include "config/document.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// Finds keys and values that are nested too deep. TOML++ limits brackets, but not the parts of a key, and recursion
/// over a key of 100,000 parts overflows the stack. After a mistake in the text the result is meaningless, but TOML++
/// then stops at that mistake.
class NestingScanner {
 public:
  explicit NestingScanner(std::string_view text) : text_(text) {}

  /// \return where TOML is nested deeper than accepted.
  std::optional<std::size_t> run() {
    for (; position_ < text_.size(); ++position_) {
      take(text_[position_]);
      if (brackets_ > kDeepestBrackets || parts_ > kMostKeyParts) return position_;
    }
    return std::nullopt;
  }

 private:
  void take(char letter) {
    if (letter == '#') position_ = std::min(text_.find('\n', position_), text_.size()) - 1;
    if (letter == '"' || letter == '\'') skip_string(letter);
    if (letter == '.') ++parts_;
    if (std::string_view("[]{}=,\n").find(letter) != std::string_view::npos) parts_ = 1;
    if (letter == '[' || letter == '{') ++brackets_;
    if (letter == ']' || letter == '}') brackets_ = std::max(0, brackets_ - 1);
  }

  /// Moves to the last character of the string that begins here.
  void skip_string(char quote) {
    const bool is_long = text_.substr(position_, 3) == std::string(3, quote);
    const std::string end(is_long ? 3 : 1, quote);
    for (std::size_t i = position_ + end.size(); i < text_.size(); ++i) {
      if (text_[i] == '\\' && quote == '"') {
        ++i;
      } else if (text_.substr(i, end.size()) == end) {
        position_ = i + end.size() - 1;
        return;
      } else if (text_[i] == '\n' && !is_long) {
        position_ = i - 1;
        return;
      }
    }
    position_ = text_.size() - 1;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int brackets_ = 0;
  /// Parts of the dotted key so far.
  int parts_ = 1;
};

Place place_at(std::string_view text, std::size_t position, const std::string& source) {
  const std::string_view before = text.substr(0, position);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 in the first line
  return {source, static_cast<std::uint32_t>(1 + std::ranges::count(before, '\n')),
          static_cast<std::uint32_t>(1 + position - line_begin)};
}

Place place_of(const toml::source_region& region, const std::string& source) {
  return {source, static_cast<std::uint32_t>(region.begin.line), static_cast<std::uint32_t>(region.begin.column)};
}

bool all_of_type(const toml::array& array, toml::node_type first, toml::node_type second) {
  return std::ranges::all_of(
      array, [&](const toml::node& element) { return element.type() == first || element.type() == second; });
}

/// Messages and names of files end at a NUL character, so the text behind it would be lost.
std::string without_nul(const std::string& text, const Place& place) {
  if (text.find('\0') == std::string::npos) return text;
  throw error_at(place, "",
                 "found " + strata::to_string(OptionValue(text)) + "; accepted: text without the character \\u0000");
}

DocumentNode convert(const toml::node& node, const std::string& source);

void convert_table(const toml::table& table, const std::string& source, DocumentNode& result) {
  result.kind = DocumentNode::Kind::table;
  for (const auto& [key, child] : table) {
    DocumentNode converted = convert(child, source);
    converted.key_place = place_of(key.source(), source);
    converted.key = without_nul(std::string(key.str()), converted.key_place);
    result.children.push_back(std::move(converted));
  }
  // TOML++ sorts children by key. Sort them by position, so that messages report the first mistake in the text.
  std::ranges::stable_sort(result.children, [](const DocumentNode& a, const DocumentNode& b) {
    return std::pair(a.key_place.line, a.key_place.column) < std::pair(b.key_place.line, b.key_place.column);
  });
}

void convert_array(const toml::array& array, const std::string& source, DocumentNode& result) {
  using toml::node_type;
  if (all_of_type(array, node_type::integer, node_type::floating_point)) {
    std::vector<double> numbers;
    for (const toml::node& element : array) numbers.push_back(*element.value<double>());
    result.value = std::move(numbers);
  } else if (all_of_type(array, node_type::string, node_type::string)) {
    std::vector<std::string> words;
    for (const toml::node& element : array) {
      words.push_back(without_nul(**element.as_string(), place_of(element.source(), source)));
    }
    result.value = std::move(words);
  } else if (all_of_type(array, node_type::table, node_type::table)) {
    result.kind = DocumentNode::Kind::tables;
    for (const toml::node& element : array) result.children.push_back(convert(element, source));
  } else {
    result.kind = DocumentNode::Kind::other;
    result.description = "a list of mixed values";
  }
}

DocumentNode convert(const toml::node& node, const std::string& source) {
  DocumentNode result;
  result.kind = DocumentNode::Kind::value;
  result.place = place_of(node.source(), source);
  switch (node.type()) {
    case toml::node_type::table:
      convert_table(*node.as_table(), source, result);
      break;
    case toml::node_type::array:
      convert_array(*node.as_array(), source, result);
      break;
    case toml::node_type::boolean:
      result.value = **node.as_boolean();
      break;
    case toml::node_type::integer:
      result.value = **node.as_integer();
      break;
    case toml::node_type::floating_point:
      result.value = **node.as_floating_point();
      break;
    case toml::node_type::string:
      result.value = without_nul(**node.as_string(), result.place);
      break;
    default:
      result.kind = DocumentNode::Kind::other;
      result.description = "a date or time";
  }
  return result;
}

}  // namespace

std::string Place::text() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message) {
  const std::string text = place.text() + ": " + (key.empty() ? "" : key + ": ") + message;
  return ConfigurationError(message_text(text, kLongestErrorText));
}

const ConfigurationPlaces::Entry* ConfigurationPlaces::nearest_entry(std::string path) const {
  while (!path.empty()) {
    if (const auto found = places_.find(path); found != places_.end()) return &found->second;
    const std::size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return nullptr;
}

Place ConfigurationPlaces::value(const std::string& path) const {
  const Entry* entry = nearest_entry(path);
  return entry == nullptr ? Place{source_, 0, 0} : entry->value;
}

Place ConfigurationPlaces::key(const std::string& path) const {
  const Entry* entry = nearest_entry(path);
  return entry == nullptr ? Place{source_, 0, 0} : entry->key;
}

const DocumentNode* DocumentNode::find(const std::string& child) const {
  const auto found = std::ranges::find(children, child, &DocumentNode::key);
  return found == children.end() ? nullptr : &*found;
}

DocumentNode* DocumentNode::find(const std::string& child) {
  return const_cast<DocumentNode*>(std::as_const(*this).find(child));
}

const DocumentNode* DocumentNode::at(const std::string& path) const {
  const DocumentNode* node = this;
  std::istringstream keys(path);
  for (std::string key; node != nullptr && std::getline(keys, key, '.');) {
    if (node->kind != Kind::tables) {
      node = node->find(key);
      continue;
    }
    const std::size_t index = parse_number<std::size_t>(key).value_or(node->children.size());
    node = index < node->children.size() ? &node->children[index] : nullptr;
  }
  return node;
}

bool DocumentNode::is_empty_list() const {
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  return kind == Kind::value && numbers != nullptr && numbers->empty();
}

DocumentNode parse_document(const std::string& text, const std::string& source) {
  if (const auto position = NestingScanner(text).run()) {
    throw error_at(place_at(text, *position, source), "",
                   fmt::format("nested too deep; accepted: keys of up to {} parts, and up to {} brackets and braces in "
                               "each other",
                               kMostKeyParts, kDeepestBrackets));
  }
  try {
    DocumentNode document = convert(toml::parse(std::string_view(text), std::string_view(source)), source);
    document.place = {source, 0, 0};
    return document;
  } catch (const toml::parse_error& error) {
    std::string description(error.description());
    if (!description.empty()) description[0] = static_cast<char>(std::tolower(description[0]));
    throw error_at(place_of(error.source(), source), "", "not valid TOML: " + description);
  }
}

std::string describe(const DocumentNode& node) {
  static constexpr const char* kNames[] = {"the boolean ", "the integer ", "the number ",
                                           "the string ",  "the list ",    "the list "};
  switch (node.kind) {
    case DocumentNode::Kind::value:
      return kNames[node.value.index()] + strata::to_string(node.value);
    case DocumentNode::Kind::table:
      return "a table";
    case DocumentNode::Kind::tables:
      return "a list of tables";
    case DocumentNode::Kind::other:
      break;
  }
  return node.description;
}

}  // namespace strata::host
