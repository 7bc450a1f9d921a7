#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/place.hpp"
#include "strata/options.hpp"

namespace strata::host {

/// A TOML document as a tree that remembers where everything was written. Knows no key.
struct DocumentNode {
  enum class Kind {
    value,   ///< what an option can hold
    table,   ///< children have keys
    tables,  ///< a list of tables: children have none
    other    ///< what no option can hold: a date, a list of mixed values
  };

  Kind kind = Kind::table;
  std::string key;
  Place key_place;
  Place place;
  OptionValue value;
  /// Of `other`: what it is, for messages.
  std::string description;
  std::vector<DocumentNode> children;

  [[nodiscard]] const DocumentNode* find(const std::string& child) const;
  [[nodiscard]] DocumentNode* find(const std::string& child);
};

/// Parses TOML; `source` names it in messages. \throws ConfigurationError with line and column of a syntax error.
DocumentNode parse_document(const std::string& text, const std::string& source);

/// \throws ConfigurationError naming the file if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// Puts one `--set KEY.PATH=VALUE` into the tree. The value is TOML; a bare word is a string. Lists of tables are
/// indexed from 0, and the index after the last one appends.
void apply_override(DocumentNode& document, const std::string& argument);

/// What a node is, for messages: "a table", "the integer 3", ….
std::string describe(const DocumentNode& node);

}  // namespace strata::host
