#pragma once

#include <string>
#include <vector>

#include "strata/options.hpp"

namespace strata::host {

/// The declaration of one section: the keys that the host itself knows. Help, reference page and messages are generated
/// from it.
struct SectionDeclaration {
  /// Path of the section: "run", "optimizer.schedule", "strategy".
  std::string path;
  /// One sentence.
  std::string documentation;
  OptionSchema schema;
  /// Lines of Markdown that the reference lists after the keys.
  std::vector<std::string> notes = {};
  /// True if the section selects a plugin, whose own options follow.
  bool has_plugin = false;
  /// True if the section may occur several times, as [[path]].
  bool repeated = false;
};

/// All sections in the order of the reference. A table within a section follows that section.
const std::vector<SectionDeclaration>& section_declarations();

/// The declaration of `path`. \throws std::out_of_range if `path` is not declared, which is a defect.
const SectionDeclaration& section_declaration(const std::string& path);

/// The declared path of a section of a document: "strategy" for "strategy.0".
std::string declared_path(const std::string& path);

/// Keys of the sections that are allowed at the top of the document, or within `path`.
std::vector<std::string> known_keys(const std::string& path);

}  // namespace strata::host
