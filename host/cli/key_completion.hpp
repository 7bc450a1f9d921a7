#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// A word that a shell may put at the cursor.
struct Candidate {
  std::string text;
  std::string documentation;
};

/// Names of the acceptable plugins of a kind.
std::vector<Candidate> plugin_names(const PluginRegistry& registry, PluginKind kind);

/// Candidates for the value of --set: keys of the configuration, one level at a time, then values.
///
///     "optim"                    optimizer.
///     "optimizer.l"              optimizer.lr=
///     "optimizer.plugin=a"       optimizer.plugin=adamw, optimizer.plugin=adafactor
class KeyCompletion {
 public:
  /// `document`: the configuration that the keys belong to; it may be incomplete or wrong.
  KeyCompletion(const DocumentNode& document, PluginRegistry& registry) : document_(document), registry_(registry) {}

  /// May include candidates that do not begin with `word`.
  [[nodiscard]] std::vector<Candidate> candidates(const std::string& word) const;

 private:
  [[nodiscard]] std::vector<Candidate> keys(const std::string& section) const;
  [[nodiscard]] std::vector<Candidate> values(const std::string& section, const std::string& key) const;
  /// Options of the plugin that the section selects, or of all plugins of its kind if it selects none.
  [[nodiscard]] std::vector<OptionSpecification> plugin_options(const std::string& section) const;
  /// The table at `section`, or null.
  [[nodiscard]] const DocumentNode* find(const std::string& section) const;

  const DocumentNode& document_;
  PluginRegistry& registry_;
};

}  // namespace strata::host
