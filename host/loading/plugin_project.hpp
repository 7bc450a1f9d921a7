#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "strata/plugin.hpp"

namespace strata::host {

/// The project of a new plugin.
struct PluginProject {
  PluginKind kind = PluginKind::strategy;
  /// The plugin's name: lower-case letters, digits and '_', beginning with a letter, at most 25 of them.
  std::string name;
  /// The folder to make. It may exist if it is empty.
  std::filesystem::path folder;
};

/// The folder of the templates that this program's SDK has installed. \throws ConfigurationError if it is not
/// installed.
std::filesystem::path template_folder();

/// Writes a project that builds, tests and packages a plugin. `templates` has one folder for each kind, and the folder
/// "common" with the files of all kinds. A file of a kind takes the place of the common one with the same name.
/// \return the files, relative to the project's folder. \throws ConfigurationError if the name is not accepted or the
/// folder is not empty. \throws RuntimeError if a file cannot be written; then there is no folder.
std::vector<std::filesystem::path> write_plugin_project(const PluginProject& project,
                                                        const std::filesystem::path& templates);

}  // namespace strata::host
