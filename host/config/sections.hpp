#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"
#include "strata/options.hpp"

namespace strata::host {

/// A key that the host itself knows, and its value in a configuration. `table` numbers the tables of a repeated
/// section; it is 0 for other sections.
struct Key {
  OptionSpecification option;
  std::function<OptionValue(RunConfiguration& configuration, std::size_t table)> get;
  std::function<void(RunConfiguration& configuration, std::size_t table, const OptionValue& value)> set;
};

/// One section of the configuration. Reading and writing, help, the reference page, completion and messages are
/// generated from these tables.
struct SectionDeclaration {
  /// Path of the section: "run", "optimizer.schedule", "strategy".
  std::string path;
  /// One sentence.
  std::string documentation;
  std::vector<Key> keys;
  /// Lines of Markdown that the reference lists after the keys.
  std::vector<std::string> notes = {};
  /// The plugin that a table of the section selects, whose own options follow. Null: the section selects none.
  PluginSection& (*plugin)(RunConfiguration& configuration, std::size_t table) = nullptr;
  /// Number of tables in a configuration. Null: the section occurs once. Otherwise it is written as [[path]].
  std::size_t (*count)(const RunConfiguration& configuration) = nullptr;
  /// The options of `keys`.
  OptionSchema schema = {};

  [[nodiscard]] bool has_plugin() const { return plugin != nullptr; }
  [[nodiscard]] bool repeated() const { return count != nullptr; }
  /// As TOML heads its tables: "[run]", "[[strategy]]".
  [[nodiscard]] std::string heading() const { return repeated() ? "[[" + path + "]]" : "[" + path + "]"; }
};

/// All sections in the order of the reference. A table within a section follows that section.
const std::vector<SectionDeclaration>& section_declarations();

/// The declaration of `path`, or null.
const SectionDeclaration* find_section(const std::string& path);
/// The declaration of `path`. \throws std::out_of_range if `path` is not declared, which is a defect.
const SectionDeclaration& section_declaration(const std::string& path);

/// The value of a host's key that is in no repeated section: "run.steps".
OptionValue value_of(RunConfiguration configuration, const std::string& path);

/// The declared path of a section of a document: "strategy" for "strategy.0".
std::string declared_path(const std::string& path);

/// Keys of the sections that are allowed at the top of the document, or within `path`.
std::vector<std::string> known_keys(const std::string& path);

/// The reference of all sections and keys as plain text.
std::string reference_text();

/// The reference as Markdown: the page docs/configuration.md.
std::string reference_markdown();

/// The options of a schema as plain text, one entry per option: name, type, default, documentation.
std::string options_text(const OptionSchema& schema, const std::string& indent = "  ");

}  // namespace strata::host
