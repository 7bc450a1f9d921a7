#include "foreign/foreign_settings.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <tuple>

namespace strata::host {
namespace {

/// Integers up to here are exact as numbers.
constexpr double kLargestInteger = 9007199254740992.0;

/// True if the other program ignores the setting too.
bool is_off(const DocumentNode& node) {
  if (node.kind != DocumentNode::Kind::value) return false;
  const auto* flag = std::get_if<bool>(&node.value);
  const auto* word = std::get_if<std::string>(&node.value);
  return (flag != nullptr && !*flag) || (word != nullptr && word->empty()) || node.is_empty_list();
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string word; std::getline(parts, word, ',');) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

const std::string& reason_of(const std::string& path, const std::map<std::string, std::string>& reasons) {
  static const std::string kNone = "no counterpart";
  const std::string* longest = &kNone;
  // The map is sorted, so a longer begin of the path comes after a shorter one.
  for (const auto& [begin, reason] : reasons) {
    if (path.rfind(begin, 0) == 0) longest = &reason;
  }
  return *longest;
}

}  // namespace

bool ForeignSettings::has_table(const std::string& path) const {
  const DocumentNode* node = root_.at(path);
  return node != nullptr && (node->kind == DocumentNode::Kind::table || node->kind == DocumentNode::Kind::tables);
}

std::optional<ForeignSettings::Found> ForeignSettings::find(Paths paths) {
  for (const char* path : paths) {
    const DocumentNode* node = root_.at(path);
    if (node == nullptr) continue;
    read_.insert(path);
    return Found{path, node};
  }
  return std::nullopt;
}

bool ForeignSettings::is_open(const Found& found) {
  const auto* word = std::get_if<std::string>(&found.node->value);
  if (found.node->kind != DocumentNode::Kind::value || word == nullptr || *word != "auto") return false;
  remarks_.push_back({found.node->key_place, found.path, "\"auto\" is filled in when the other program runs"});
  return true;
}

std::optional<std::int64_t> ForeignSettings::integer(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found)) return std::nullopt;
  if (found->node->kind == DocumentNode::Kind::value) {
    if (const auto* value = std::get_if<std::int64_t>(&found->node->value)) return *value;
    // JSON writes 5e8 for an integer.
    const auto* value = std::get_if<double>(&found->node->value);
    if (value != nullptr && std::abs(*value) <= kLargestInteger && *value == std::floor(*value)) {
      return static_cast<std::int64_t>(*value);
    }
  }
  refuse(found->path, "an integer");
}

std::optional<double> ForeignSettings::number(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found)) return std::nullopt;
  if (found->node->kind == DocumentNode::Kind::value) {
    if (const auto* value = std::get_if<std::int64_t>(&found->node->value)) return static_cast<double>(*value);
    if (const auto* value = std::get_if<double>(&found->node->value)) return *value;
  }
  refuse(found->path, "a number");
}

std::optional<std::string> ForeignSettings::word(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found)) return std::nullopt;
  const auto* value = std::get_if<std::string>(&found->node->value);
  if (found->node->kind != DocumentNode::Kind::value || value == nullptr) refuse(found->path, "a string");
  return *value;
}

std::optional<std::vector<double>> ForeignSettings::pair(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found)) return std::nullopt;
  const auto* values = std::get_if<std::vector<double>>(&found->node->value);
  if (found->node->kind != DocumentNode::Kind::value || values == nullptr || values->size() != 2) {
    refuse(found->path, "two numbers");
  }
  return *values;
}

std::vector<std::string> ForeignSettings::words(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found) || is_off(*found->node)) return {};
  if (found->node->kind == DocumentNode::Kind::value) {
    if (const auto* value = std::get_if<std::vector<std::string>>(&found->node->value)) return *value;
    if (const auto* value = std::get_if<std::string>(&found->node->value)) return split(*value);
  }
  refuse(found->path, "a list of strings");
}

std::optional<bool> ForeignSettings::chosen_flag(Paths paths) {
  const auto found = find(paths);
  if (!found || is_open(*found)) return std::nullopt;
  const auto* value = std::get_if<bool>(&found->node->value);
  if (found->node->kind != DocumentNode::Kind::value || value == nullptr) refuse(found->path, "true or false");
  return *value;
}

std::string ForeignSettings::text(Paths paths) {
  const auto found = find(paths);
  if (!found) return "";
  if (found->node->kind != DocumentNode::Kind::value) refuse(found->path, "a word, a number, true or false");
  const auto* word = std::get_if<std::string>(&found->node->value);
  return word != nullptr ? *word : strata::to_string(found->node->value);
}

void ForeignSettings::remark(const std::string& path, const std::string& reason) {
  const DocumentNode* node = root_.at(path);
  if (node == nullptr) return;
  read_.insert(path);
  remarks_.push_back({node->key_place, path, reason});
}

void ForeignSettings::remark_on_file(const std::string& key, const std::string& reason) {
  remarks_.push_back({root_.place, key, reason});
}

void ForeignSettings::add(const std::vector<ImportRemark>& remarks) {
  remarks_.insert(remarks_.end(), remarks.begin(), remarks.end());
}

std::filesystem::path ForeignSettings::folder() const {
  return std::filesystem::path(root_.place.source).parent_path();
}

void ForeignSettings::refuse(const std::string& path, const std::string& accepted) const {
  const DocumentNode* node = root_.at(path);
  const std::string found = node == nullptr ? "nothing" : describe(*node);
  throw error_at(node == nullptr ? root_.place : node->place, path, "found " + found + "; accepted: " + accepted);
}

void ForeignSettings::add_unread(const DocumentNode& node, const std::string& path,
                                 const std::map<std::string, std::string>& reasons,
                                 std::vector<ImportRemark>& remarks) const {
  if (read_.contains(path)) return;
  if (node.kind != DocumentNode::Kind::table) {
    if (!is_off(node)) remarks.push_back({node.key_place, path, reason_of(path, reasons)});
    return;
  }
  for (const DocumentNode& child : node.children) {
    add_unread(child, path.empty() ? child.key : path + "." + child.key, reasons, remarks);
  }
}

std::vector<ImportRemark> ForeignSettings::remarks(const std::map<std::string, std::string>& reasons) const {
  std::vector<ImportRemark> all = remarks_;
  add_unread(root_, "", reasons, all);
  std::ranges::stable_sort(all, [](const ImportRemark& a, const ImportRemark& b) {
    return std::tie(a.place.source, a.place.line, a.place.column) <
           std::tie(b.place.source, b.place.line, b.place.column);
  });
  return all;
}

}  // namespace strata::host
