#include "cluster/cluster_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/cluster_file.hpp"
#include "files/file_io.hpp"
#include "files/text_format.hpp"

// Set by CMake: the folder of configurations relative to the program's.
#ifndef STRATA_CONFIGURATION_DIRECTORY
#define STRATA_CONFIGURATION_DIRECTORY "../share/strata/configs"
#endif

namespace strata::host {
namespace {

using std::filesystem::path;

constexpr const char* kBase = "based_on";
constexpr const char* kDeviceFolder = "devices";
/// Descriptions that may be based on each other.
constexpr int kDeepestBases = 8;

DocumentNode word_node(const std::string& key, const std::string& word, const Place& place) {
  DocumentNode node;
  node.kind = DocumentNode::Kind::value;
  node.key = key;
  node.key_place = node.place = place;
  node.value = word;
  return node;
}

DocumentNode table_node(const std::string& key, const Place& place) {
  DocumentNode node;
  node.key = key;
  node.key_place = node.place = place;
  return node;
}

/// The word at a key, or empty. Values of other kinds are refused when the table is read.
std::string word_at(const DocumentNode& table, const std::string& key) {
  const DocumentNode* node = table.find(key);
  const auto* word = node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return word == nullptr ? "" : *word;
}

void merge(DocumentNode& base, const DocumentNode& changes);

/// Changes the tables of a list that have the same `name`, and appends the others.
void merge_named(DocumentNode& base, const DocumentNode& changes) {
  for (const DocumentNode& change : changes.children) {
    const std::string name = word_at(change, "name");
    const auto same =
        std::ranges::find_if(base.children, [&](const DocumentNode& each) { return word_at(each, "name") == name; });
    if (same == base.children.end()) {
      base.children.push_back(change);
    } else {
      merge(*same, change);
    }
  }
}

/// Puts the keys of `changes` in the place of those of `base`.
void merge(DocumentNode& base, const DocumentNode& changes) {
  using Kind = DocumentNode::Kind;
  const bool has_names = !changes.children.empty() && changes.children.front().find("name") != nullptr;
  if (base.kind == Kind::tables && changes.kind == Kind::tables && has_names) return merge_named(base, changes);
  if (base.kind != Kind::table || changes.kind != Kind::table) {
    base = changes;
    return;
  }
  base.place = changes.place;
  for (const DocumentNode& change : changes.children) {
    if (DocumentNode* same = base.find(change.key)) {
      merge(*same, change);
    } else {
      base.children.push_back(change);
    }
  }
}

void remove_key(DocumentNode& table, const std::string& key) {
  std::erase_if(table.children, [&](const DocumentNode& child) { return child.key == key; });
}

bool is_file(const std::string& source) { return source.find('/') != std::string::npos || source.ends_with(".toml"); }

/// The path as it is meant in the file that mentions it.
path relative_to(const Place& mention, const path& file) {
  if (file.is_absolute() || mention.line == 0) return file;
  return path(mention.source).parent_path() / file;
}

/// The only table of a file of a cluster.
DocumentNode cluster_table(const path& file) {
  const DocumentNode document = parse_document(read_text(file), file.string());
  for (const DocumentNode& child : document.children) {
    if (child.key == "cluster") continue;
    throw error_at(child.key_place, child.key, "unknown section; accepted: cluster");
  }
  if (document.children.empty()) throw error_at(document.place, "cluster", "missing; accepted: a table [cluster]");
  DocumentNode table = document.children.front();
  if (table.kind == DocumentNode::Kind::table && table.find("name") == nullptr && table.find(kBase) == nullptr) {
    table.children.push_back(word_node("name", file.stem().string(), table.place));
  }
  return table;
}

/// A cluster of one device.
DocumentNode single_device(const std::string& name, const Place& place) {
  DocumentNode group = table_node("", place);
  group.children = {word_node("name", name, place), word_node("device", name, place)};
  DocumentNode groups = table_node("group", place);
  groups.kind = DocumentNode::Kind::tables;
  groups.children = {std::move(group)};
  DocumentNode cluster = table_node("cluster", place);
  cluster.children = {word_node("name", name, place), std::move(groups)};
  return cluster;
}

std::vector<std::string> names_in(const path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// The names of the descriptions in a folder, for messages: "dgx-a100, dgx-h100".
std::string listed(const std::vector<std::string>& names, const path& folder) {
  if (names.empty()) return fmt::format("none, since '{}' has no descriptions", folder.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

void require_depth(int depth, const Place& mention) {
  if (depth <= kDeepestBases) return;
  throw error_at(mention, kBase, fmt::format("leads back to itself, or over more than {} descriptions", kDeepestBases));
}

}  // namespace

path published_clusters() {
  const path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (program / STRATA_CONFIGURATION_DIRECTORY / "clusters").lexically_normal();
}

PublishedNames published_names(const path& published) {
  return {names_in(published), names_in(published / kDeviceFolder)};
}

DocumentNode ClusterLibrary::cluster(const std::string& source, const Place& mention) const {
  return cluster(source, mention, 0);
}

DocumentNode ClusterLibrary::cluster(const std::string& source, const Place& mention, int depth) const {
  if (is_file(source)) return joined_cluster(cluster_table(relative_to(mention, source)), depth);
  const PublishedNames names = published_names(published_);
  const auto has = [&](const std::vector<std::string>& list) { return contains(list, source); };
  if (has(names.systems)) return joined_cluster(cluster_table(published_ / (source + ".toml")), depth);
  if (has(names.devices)) return joined_cluster(single_device(source, mention), depth);
  std::vector<std::string> all = names.systems;
  all.insert(all.end(), names.devices.begin(), names.devices.end());
  throw error_at(
      mention, "",
      fmt::format("there is no published cluster '{}'{}; accepted: a file (clusters/mine.toml), a system ({}) "
                  "or a device ({})",
                  source, did_you_mean(source, all), listed(names.systems, published_),
                  listed(names.devices, published_ / kDeviceFolder)));
}

DocumentNode ClusterLibrary::joined_cluster(DocumentNode table) const { return joined_cluster(std::move(table), 0); }

DocumentNode ClusterLibrary::joined_cluster(DocumentNode table, int depth) const {
  if (const std::string base = word_at(table, kBase); !base.empty()) {
    const Place mention = table.find(kBase)->place;
    require_depth(depth, mention);
    DocumentNode joined = cluster(base, mention, depth + 1);
    remove_key(table, kBase);
    merge(joined, table);
    table = std::move(joined);
  }
  DocumentNode devices = table_node("device", table.place);
  if (const DocumentNode* groups = table.find("group")) {
    for (const DocumentNode& group : groups->children) {
      const std::string name = word_at(group, "device");
      if (name.empty() || devices.find(name) != nullptr) continue;
      devices.children.push_back(device(name, table.find("device"), group.find("device")->place, 0));
    }
  }
  if (const DocumentNode* own = table.find("device"); own != nullptr && own->kind == DocumentNode::Kind::table) {
    for (const DocumentNode& each : own->children) {
      if (devices.find(each.key) == nullptr) devices.children.push_back(device(each.key, own, each.key_place, 0));
    }
    remove_key(table, "device");
  }
  table.children.push_back(std::move(devices));
  return table;
}

DocumentNode ClusterLibrary::device(const std::string& name, const DocumentNode* tables, const Place& mention,
                                    int depth) const {
  require_depth(depth, mention);
  const DocumentNode* own = tables == nullptr ? nullptr : tables->find(name);
  if (own == nullptr) {
    if (has_device(name)) return published_device(name);
    throw unknown_device(name, tables, mention);
  }
  std::string base = word_at(*own, kBase);
  if (base.empty() && has_device(name)) base = name;
  if (base.empty()) return *own;
  const Place place = own->find(kBase) == nullptr ? mention : own->find(kBase)->place;
  // A device that changes the published one of its own name does not mean itself.
  DocumentNode joined = device(base, base == name ? nullptr : tables, place, depth + 1);
  merge(joined, *own);
  remove_key(joined, kBase);
  joined.key = name;
  return joined;
}

bool ClusterLibrary::has_device(const std::string& name) const {
  const std::vector<std::string> names = names_in(published_ / kDeviceFolder);
  return contains(names, name);
}

DocumentNode ClusterLibrary::published_device(const std::string& name) const {
  const path file = published_ / kDeviceFolder / (name + ".toml");
  DocumentNode table = parse_document(read_text(file), file.string());
  table.key = name;
  if (const std::string base = word_at(table, kBase); !base.empty()) {
    DocumentNode joined = device(base, nullptr, table.find(kBase)->place, 1);
    merge(joined, table);
    remove_key(joined, kBase);
    joined.key = name;
    return joined;
  }
  return table;
}

ConfigurationError ClusterLibrary::unknown_device(const std::string& name, const DocumentNode* tables,
                                                  const Place& mention) const {
  std::vector<std::string> known = names_in(published_ / kDeviceFolder);
  for (std::size_t i = 0; tables != nullptr && i < tables->children.size(); ++i) {
    const std::string& own = tables->children[i].key;
    if (own != name) known.push_back(own);
  }
  return error_at(mention, "device",
                  fmt::format("found \"{}\"{}; accepted: a table [cluster.device.NAME] of the file, or a published "
                              "device: {}",
                              name, did_you_mean(name, known), listed(known, published_ / kDeviceFolder)));
}

}  // namespace strata::host
