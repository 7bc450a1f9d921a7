#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/options.hpp"

namespace strata::host {

/// The source position of a setting: line and column in a file, or an argument of the command line.
struct Place {
  /// The file's name, or the whole argument ("--set model.layers=2").
  std::string source;
  /// Counted from 1. 0 refers to the whole source.
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  /// The place as text: "quickstart.toml:12:8", "--set model.layers=2".
  [[nodiscard]] std::string text() const;
};

/// An error with the message "PLACE: KEY: MESSAGE", which is the form of all messages about the configuration.
ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message);

/// The source positions of keys and values, by path ("batch.global", "strategy.0.size").
class ConfigurationPlaces {
 public:
  explicit ConfigurationPlaces(std::string source = "") : source_(std::move(source)) {}

  void add(const std::string& path, const Place& key, const Place& value) { places_[path] = {key, value}; }
  /// Position of the value. If the key is absent, the position of the enclosing section or of the whole source.
  [[nodiscard]] Place value(const std::string& path) const;
  /// Position of the key, with the same fallback.
  [[nodiscard]] Place key(const std::string& path) const;

  /// All are equal: configurations that differ in the places of their keys only are equal.
  bool operator==(const ConfigurationPlaces&) const { return true; }

 private:
  struct Entry {
    Place key;
    Place value;
  };

  [[nodiscard]] const Entry* nearest_entry(std::string path) const;

  std::string source_;
  std::map<std::string, Entry> places_;
};

/// Open brackets and braces that a configuration may have at one place. Configurations have 2.
inline constexpr int kDeepestBrackets = 16;
/// Parts of a dotted key. Configurations have 2.
inline constexpr int kMostKeyParts = 16;

/// A TOML document as a tree that records the file, line and column of every node. It knows no keys of the
/// configuration.
struct DocumentNode {
  enum class Kind {
    value,   ///< a value that an option can hold
    table,   ///< a table, whose children have keys
    tables,  ///< a list of tables, whose children have no keys
    other    ///< a value that no option can hold, such as a date or a list of mixed types
  };

  Kind kind = Kind::table;
  std::string key;
  Place key_place;
  Place place;
  OptionValue value;
  /// For Kind::other, the kind of value in words, for messages.
  std::string description;
  std::vector<DocumentNode> children;

  [[nodiscard]] const DocumentNode* find(const std::string& child) const;
  [[nodiscard]] DocumentNode* find(const std::string& child);
  /// The node at a path such as "run.seed" or "strategy.0.size", or null. An empty path is this node.
  [[nodiscard]] const DocumentNode* at(const std::string& path) const;
  /// True for `[]`, which may be a list of anything.
  [[nodiscard]] bool is_empty_list() const;
};

/// Parses TOML. `source` is the document's name in messages. \throws ConfigurationError with line and column of a
/// syntax error.
DocumentNode parse_document(const std::string& text, const std::string& source);

/// Applies one `--set KEY.PATH=VALUE` to the tree. The value is TOML; a bare word is a string. Lists of tables are
/// indexed from 0, and the index after the last one appends. If the argument changes the plugin of a section, the
/// options that the document gives for the old plugin are dropped. Options of earlier --set arguments stay. Example:
/// `--set device.plugin=cuda` drops the options of "cpu" in [device].
void apply_override(DocumentNode& document, const std::string& argument);

/// The node in words, for messages: "a table", "the integer 3".
std::string describe(const DocumentNode& node);

}  // namespace strata::host
