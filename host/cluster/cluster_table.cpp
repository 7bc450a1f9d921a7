#include "cluster/cluster_table.hpp"

#include <fmt/format.h>

#include <utility>

#include "files/text_format.hpp"

namespace strata::host {

ClusterTable::ClusterTable(const DocumentNode& node, std::string path) : node_(node), path_(std::move(path)) {
  if (node_.kind == DocumentNode::Kind::table) return;
  throw error_at(node_.place, path_, "found " + describe(node_) + "; accepted: a table");
}

std::string ClusterTable::path_of(std::string_view key) const { return path_ + "." + std::string(key); }

void ClusterTable::refuse_unknown_keys(const std::vector<std::string>& known) const {
  for (const DocumentNode& child : node_.children) {
    if (contains(known, child.key)) continue;
    throw error_at(child.key_place, path_of(child.key),
                   fmt::format("unknown key{}; accepted: {}", did_you_mean(child.key, known), fmt::join(known, ", ")));
  }
}

std::string ClusterTable::accepted(const ElementRange& range) {
  std::string text =
      fmt::format("{}{} to {}", range.may_be_zero ? "0, or " : "", exact_number(range.least), exact_number(range.most));
  if (range.unit.name.empty()) return text;
  return text + fmt::format(" {} ({})", range.unit.name, range.unit.example);
}

double ClusterTable::number(const DocumentNode& node, const std::string& path, const ElementRange& range) const {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (node.kind == DocumentNode::Kind::value) {
    if (const auto* integer = std::get_if<std::int64_t>(&node.value)) value = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&node.value)) value = *real;
  }
  // A comparison with NaN is false.
  if ((value >= range.least && value <= range.most) || (range.may_be_zero && value == 0)) return value;
  throw error_at(node.place, path, "found " + describe(node) + "; accepted: " + accepted(range));
}

ConfigurationError ClusterTable::not_whole(std::string_view key, const DocumentNode& node) const {
  return error_at(node.place, path_of(key), "found " + describe(node) + "; accepted: a whole number");
}

std::string ClusterTable::word(std::string_view key) const {
  const DocumentNode* node = node_.find(std::string(key));
  if (node == nullptr) return "";
  const auto* word = std::get_if<std::string>(&node->value);
  if (node->kind == DocumentNode::Kind::value && word != nullptr && !word->empty()) return *word;
  throw error(key, "found " + describe(*node) + "; accepted: a string that is not empty");
}

std::string ClusterTable::required_word(std::string_view key) const {
  if (node_.find(std::string(key)) == nullptr) throw missing(key, "a string");
  return word(key);
}

bool ClusterTable::flag(std::string_view key, bool otherwise) const {
  const DocumentNode* node = node_.find(std::string(key));
  if (node == nullptr) return otherwise;
  const auto* value = std::get_if<bool>(&node->value);
  if (node->kind == DocumentNode::Kind::value && value != nullptr) return *value;
  throw error(key, "found " + describe(*node) + "; accepted: true or false");
}

std::vector<double> ClusterTable::numbers(std::string_view key, const ElementRange& range) const {
  const DocumentNode* node = node_.find(std::string(key));
  if (node == nullptr) return {};
  const auto* list = std::get_if<std::vector<double>>(&node->value);
  if (node->kind != DocumentNode::Kind::value || list == nullptr) {
    throw error(key, "found " + describe(*node) + "; accepted: a list of numbers");
  }
  for (const double each : *list) {
    DocumentNode element;
    element.kind = DocumentNode::Kind::value;
    element.place = node->place;
    element.value = each;
    static_cast<void>(number(element, path_of(key), range));
  }
  return *list;
}

std::vector<ClusterTable> ClusterTable::tables(std::string_view key) const {
  const DocumentNode* node = node_.find(std::string(key));
  if (node == nullptr || node->is_empty_list()) return {};
  if (node->kind != DocumentNode::Kind::tables) {
    throw error(key, "found " + describe(*node) + "; accepted: tables headed [[" + path_of(key) + "]]");
  }
  std::vector<ClusterTable> tables;
  for (std::size_t i = 0; i < node->children.size(); ++i) {
    tables.emplace_back(node->children[i], path_of(key) + "." + std::to_string(i));
  }
  return tables;
}

ConfigurationError ClusterTable::missing(std::string_view key, const std::string& accepted) const {
  return error_at(node_.place, path_of(key), "missing; accepted: " + accepted);
}

ConfigurationError ClusterTable::error(std::string_view key, const std::string& message) const {
  const DocumentNode* node = node_.find(std::string(key));
  return error_at(node == nullptr ? node_.place : node->place, path_of(key), message);
}

}  // namespace strata::host
