#include "foreign/yaml_document.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

constexpr int kDeepestYaml = 32;
/// References to anchors can make a tree of any size out of a short text.
constexpr int kMostNodes = 100000;

/// The tag of text in quotes.
constexpr const char* kQuoted = "!";

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  return parse_number<Number>(std::string_view(text).substr(text.starts_with('+') ? 1 : 0));
}

class YamlConverter {
 public:
  explicit YamlConverter(std::string source) : source_(std::move(source)) {}

  DocumentNode convert(const YAML::Node& node, int depth) {
    DocumentNode result;
    count(node, depth);
    result.place = place(node.Mark());
    if (node.IsMap()) {
      convert_map(node, depth, result);
    } else if (node.IsSequence()) {
      convert_list(node, depth, result);
    } else {
      result.kind = DocumentNode::Kind::value;
      result.value = node.Tag() == kQuoted ? OptionValue(node.Scalar()) : scalar_value(node.Scalar());
    }
    return result;
  }

  [[nodiscard]] Place place(const YAML::Mark& mark) const {
    if (mark.is_null()) return {source_, 0, 0};
    return {source_, static_cast<std::uint32_t>(mark.line + 1), static_cast<std::uint32_t>(mark.column + 1)};
  }

 private:
  using Entry = std::pair<YAML::Node, YAML::Node>;

  void count(const YAML::Node& node, int depth) {
    if (depth <= kDeepestYaml && ++nodes_ <= kMostNodes) return;
    throw error_at(place(node.Mark()), "", "too many nested values");
  }

  void convert_map(const YAML::Node& node, int depth, DocumentNode& result) {
    result.kind = DocumentNode::Kind::table;
    std::vector<Entry> entries;
    collect(node, depth, entries);
    for (const auto& [key, value] : entries) {
      if (value.IsNull()) continue;
      DocumentNode child = convert(value, depth + 1);
      child.key = key.Scalar();
      child.key_place = place(key.Mark());
      result.children.push_back(std::move(child));
    }
  }

  /// Adds the entries that a table merges: those of another table (`<<: *defaults`), or of a list of tables. The first
  /// entry of a key counts.
  void merge(const YAML::Node& node, int depth, std::vector<Entry>& entries) {
    count(node, depth);
    if (!node.IsSequence()) return collect(node, depth, entries);
    for (const YAML::Node& each : node) merge(each, depth + 1, entries);
  }

  /// Adds the entries of a table, and then those that it merges. The first entry of a key counts.
  void collect(const YAML::Node& node, int depth, std::vector<Entry>& entries) {
    if (!node.IsMap()) {
      throw error_at(place(node.Mark()), "<<",
                     "found " + describe(convert(node, depth)) + "; accepted: a table or a list of tables");
    }
    std::set<std::string> keys;
    for (const Entry& entry : entries) keys.insert(entry.first.Scalar());
    std::set<std::string> own;
    std::vector<YAML::Node> merged;
    for (const auto& entry : node) {
      const Place at = place(entry.first.Mark());
      if (!entry.first.IsScalar()) throw error_at(at, "", "a key that is no word; accepted: words");
      const std::string key = entry.first.Scalar();
      if (key == "<<" && entry.first.Tag() != kQuoted) {
        merged.push_back(entry.second);
        continue;
      }
      if (!own.insert(key).second) throw error_at(at, key, "the key stands here twice");
      if (keys.insert(key).second) entries.emplace_back(entry.first, entry.second);
    }
    for (const YAML::Node& each : merged) merge(each, depth + 1, entries);
  }

  void convert_list(const YAML::Node& node, int depth, DocumentNode& result) {
    std::vector<DocumentNode> elements;
    for (const YAML::Node& element : node) elements.push_back(convert(element, depth + 1));
    std::vector<double> numbers;
    std::vector<std::string> words;
    std::size_t tables = 0;
    for (const DocumentNode& each : elements) {
      if (each.kind == DocumentNode::Kind::table) ++tables;
      if (each.kind != DocumentNode::Kind::value) continue;
      if (const auto* word = std::get_if<std::string>(&each.value)) words.push_back(*word);
      if (const auto* integer = std::get_if<std::int64_t>(&each.value))
        numbers.push_back(static_cast<double>(*integer));
      if (const auto* number = std::get_if<double>(&each.value)) numbers.push_back(*number);
    }
    result.kind = DocumentNode::Kind::value;
    if (numbers.size() == elements.size()) {
      result.value = std::move(numbers);
    } else if (words.size() == elements.size()) {
      result.value = std::move(words);
    } else if (tables == elements.size()) {
      result.kind = DocumentNode::Kind::tables;
      result.children = std::move(elements);
    } else {
      result.kind = DocumentNode::Kind::other;
      result.description = "a list of mixed values";
    }
  }

  std::string source_;
  int nodes_ = 0;
};

}  // namespace

OptionValue scalar_value(const std::string& text) {
  if (text == "true" || text == "True" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "False" || text == "no" || text == "off") return false;
  if (const auto integer = number_in<std::int64_t>(text)) return *integer;
  if (const auto number = number_in<double>(text); number && std::isfinite(*number)) return *number;
  return text;
}

DocumentNode parse_yaml(const std::string& text, const std::string& source) {
  YamlConverter converter(source);
  try {
    DocumentNode document = converter.convert(YAML::Load(text), 0);
    if (document.kind != DocumentNode::Kind::table) {
      throw error_at({source, 1, 1}, "", "found no keys; accepted: keys with values");
    }
    document.place = {source, 0, 0};
    return document;
  } catch (const YAML::Exception& error) {
    throw error_at(converter.place(error.mark), "", "not valid YAML or JSON: " + error.msg);
  }
}

}  // namespace strata::host
