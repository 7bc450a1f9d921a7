#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata::host {

/// The environment variables that name folders of plugins. Empty if not set.
struct PluginEnvironment {
  /// STRATA_PLUGIN_PATH: folders separated by colons.
  std::string plugin_path;
  /// XDG_DATA_HOME: the folder of the user's data. Default: .local/share in `home`.
  std::string data_home;
  /// HOME
  std::string home;
};

/// The environment of this process. Empty if the process has more privileges than the user who started it (a
/// set-user-ID program, file capabilities): that user must not choose the code that runs with them.
PluginEnvironment plugin_environment();

/// Folders to search for plugins, in this order: those of STRATA_PLUGIN_PATH, that of the user's data, those beside the
/// program in the build tree and in an installation, and those of the system. A user's own folders come first, because
/// the user can change neither of the others.
std::vector<std::filesystem::path> plugin_search_places(const std::filesystem::path& program_folder,
                                                        const PluginEnvironment& environment);

/// The folders for this process.
std::vector<std::filesystem::path> plugin_search_places();

}  // namespace strata::host
