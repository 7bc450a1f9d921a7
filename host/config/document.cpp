#include "config/document.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "config/nesting.hpp"

namespace strata::host {
namespace {

Place place_of(const toml::source_region& region, const std::string& source) {
  return {source, static_cast<std::uint32_t>(region.begin.line), static_cast<std::uint32_t>(region.begin.column)};
}

bool all_of_type(const toml::array& array, toml::node_type first, toml::node_type second) {
  return std::all_of(array.begin(), array.end(),
                     [&](const toml::node& element) { return element.type() == first || element.type() == second; });
}

DocumentNode convert(const toml::node& node, const std::string& source);

void convert_table(const toml::table& table, const std::string& source, DocumentNode& result) {
  result.kind = DocumentNode::Kind::table;
  for (const auto& [key, child] : table) {
    DocumentNode converted = convert(child, source);
    converted.key = key.str();
    converted.key_place = place_of(key.source(), source);
    result.children.push_back(std::move(converted));
  }
  // TOML++ sorts children by key. Sort them by position, so that messages report the first mistake in the text.
  std::stable_sort(result.children.begin(), result.children.end(), [](const DocumentNode& a, const DocumentNode& b) {
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
    for (const toml::node& element : array) words.push_back(**element.as_string());
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
      result.value = **node.as_string();
      break;
    default:
      result.kind = DocumentNode::Kind::other;
      result.description = "a date or time";
  }
  return result;
}

}  // namespace

const DocumentNode* DocumentNode::find(const std::string& child) const {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const DocumentNode& node) { return node.key == child; });
  return found == children.end() ? nullptr : &*found;
}

DocumentNode* DocumentNode::find(const std::string& child) {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const DocumentNode& node) { return node.key == child; });
  return found == children.end() ? nullptr : &*found;
}

DocumentNode parse_document(const std::string& text, const std::string& source) {
  if (const auto place = find_deep_nesting(text)) {
    throw error_at({source, place->line, place->column}, "",
                   "nested too deep; accepted: keys of up to " + std::to_string(kMostKeyParts) + " parts, and up to " +
                       std::to_string(kDeepestBrackets) + " brackets and braces in each other");
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
