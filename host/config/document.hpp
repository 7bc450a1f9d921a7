#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/place.hpp"
#include "strata/options.hpp"

namespace strata::host {

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
};

/// Parses TOML. `source` is the document's name in messages. \throws ConfigurationError with line and column of a
/// syntax error.
DocumentNode parse_document(const std::string& text, const std::string& source);

/// Reads a text file or a pipe of up to 4 MiB. \throws ConfigurationError that names the file if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// Applies one `--set KEY.PATH=VALUE` to the tree. The value is TOML; a bare word is a string. Lists of tables are
/// indexed from 0, and the index after the last one appends. If the argument changes the plugin of a section, the
/// options that the document gives for the old plugin are dropped. Options of earlier --set arguments stay. Example:
/// `--set device.plugin=cuda` drops the options of "cpu" in [device].
void apply_override(DocumentNode& document, const std::string& argument);

/// The node in words, for messages: "a table", "the integer 3".
std::string describe(const DocumentNode& node);

}  // namespace strata::host
