#include <fmt/format.h>

#include <optional>

#include "config/document.hpp"
#include "config/sections.hpp"
#include "files/text_format.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys(1);
  for (const char letter : path) {
    if (letter == '.') {
      keys.emplace_back();
    } else {
      keys.back() += letter;
    }
  }
  return keys;
}

void set_place(DocumentNode& node, const Place& place) {
  node.place = place;
  node.key_place = place;
  for (DocumentNode& child : node.children) set_place(child, place);
}

DocumentNode bare_word(const std::string& text) {
  DocumentNode node;
  node.kind = DocumentNode::Kind::value;
  node.value = text;
  return node;
}

/// Parses the value as TOML, or takes it as a bare word. Text that begins like a quoted string, a list or a table must
/// be valid TOML.
DocumentNode parse_value(const std::string& text, const Place& place) {
  const bool structured = !text.empty() && std::string("\"'[{").find(text[0]) != std::string::npos;
  try {
    DocumentNode document = parse_document("value = " + text + "\n", place.source);
    const bool one_value = document.children.size() == 1 && text.find('\n') == std::string::npos;
    if (one_value && document.children[0].kind != DocumentNode::Kind::other) return std::move(document.children[0]);
    if (!structured) return bare_word(text);
  } catch (const ConfigurationError&) {
    if (!structured) return bare_word(text);
  }
  throw error_at(place, "",
                 "'" + text + "' is not a TOML value; accepted: a number, true, false, a string, a list of " +
                     "numbers or of strings, a table in braces");
}

/// The child of `node` with this key, which is added if it is missing.
DocumentNode& child_of(DocumentNode& node, const std::string& path, const std::string& key, const Place& place) {
  if (node.kind == DocumentNode::Kind::table) {
    if (DocumentNode* found = node.find(key)) return *found;
    DocumentNode child;
    child.key = key;
    child.place = child.key_place = place;
    node.children.push_back(std::move(child));
    return node.children.back();
  }
  if (node.kind != DocumentNode::Kind::tables) {
    throw error_at(place, path, "is " + describe(node) + ", it has no key '" + key + "'");
  }
  const auto index = parse_number<std::size_t>(key);
  if (!index || *index > node.children.size()) {
    throw error_at(place, path,
                   fmt::format("found the index '{}'; accepted: 0 to {}{}", key, node.children.size(),
                               node.children.empty() ? "" : ", where the last appends a table"));
  }
  if (*index == node.children.size()) {
    node.children.emplace_back();
    node.children.back().place = place;
  }
  return node.children[*index];
}

constexpr const char* kPluginKey = "plugin";

bool is_repeated(const std::string& path) {
  const SectionDeclaration* section = find_section(path);
  return section != nullptr && section->repeated();
}

/// The declaration of the section at `path` ("device", "strategy.0") if the section names a plugin, else null.
const SectionDeclaration* plugin_section(const std::string& path) {
  const std::string declared = declared_path(path);
  const SectionDeclaration* section = find_section(declared);
  const bool names_plugin = section != nullptr && section->has_plugin() && section->repeated() == (declared != path);
  return names_plugin ? section : nullptr;
}

/// Drops the options of a section that belong to another plugin: those of the file. Options of earlier --set arguments
/// stay, and so do the section's own keys and tables.
void drop_other_options(DocumentNode& section, const SectionDeclaration& declaration, const DocumentNode& plugin) {
  if (section.kind != DocumentNode::Kind::table) return;
  std::optional<OptionValue> before = declaration.schema.find(kPluginKey)->default_value;
  if (const DocumentNode* written = section.find(kPluginKey)) before = written->value;
  if (before == plugin.value) return;
  const std::vector<std::string> own = known_keys(declaration.path);
  std::erase_if(section.children,
                [&](const DocumentNode& child) { return child.place.line > 0 && !contains(own, child.key); });
}

}  // namespace

void apply_override(DocumentNode& document, const std::string& argument) {
  const Place place{"--set " + argument, 0, 0};
  if (!is_utf8(argument)) throw error_at(place, "", "found bytes that are not UTF-8; accepted: UTF-8, as in a file");
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    throw error_at(place, "", "found no '='; accepted: KEY=VALUE, as in model.layers=2 or strategy.0.size=4");
  }
  const std::string path = trimmed(argument.substr(0, equals));
  DocumentNode value = parse_value(trimmed(argument.substr(equals + 1)), place);
  DocumentNode* node = &document;
  std::string walked;
  const std::vector<std::string> keys = split(path);
  for (const std::string& key : keys) {
    if (key.empty()) throw error_at(place, path, "found an empty key; accepted: keys separated by dots");
    // A repeated section may be absent or written as an empty list.
    if (is_repeated(walked.empty() ? key : walked + "." + key)) {
      DocumentNode& tables = child_of(*node, walked, key, place);
      if (tables.children.empty() && (tables.kind == DocumentNode::Kind::table || tables.is_empty_list())) {
        tables.kind = DocumentNode::Kind::tables;
      }
    }
    const SectionDeclaration* section = &key == &keys.back() && key == kPluginKey ? plugin_section(walked) : nullptr;
    if (section != nullptr) drop_other_options(*node, *section, value);
    node = &child_of(*node, walked, key, place);
    walked += (walked.empty() ? "" : ".") + key;
  }
  value.key = node->key;
  set_place(value, place);
  *node = std::move(value);
}

}  // namespace strata::host
