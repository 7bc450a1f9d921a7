#pragma once

#include <string>
#include <vector>

#include "strata/options.hpp"

namespace strata::host {

/// What the host itself knows of one section of the configuration. Everything that is said about a key, in help, in the
/// reference page and in messages, comes from its declaration here.
struct SectionDeclaration {
  /// "run", "optimizer.schedule", "strategy".
  std::string path;
  /// One sentence.
  std::string documentation;
  OptionSchema schema;
  /// The section names a plugin, whose own options follow.
  bool has_plugin = false;
  /// May occur any number of times, as [[path]].
  bool repeated = false;
};

/// All sections, in the order in which the reference shows them; a table inside a section follows it.
const std::vector<SectionDeclaration>& section_declarations();

/// The declaration of `path`. \throws std::out_of_range for a path that is not declared: a defect.
const SectionDeclaration& section_declaration(const std::string& path);

/// Keys of the sections that may stand at the top of the document, or under `path`.
std::vector<std::string> known_keys(const std::string& path);

}  // namespace strata::host
