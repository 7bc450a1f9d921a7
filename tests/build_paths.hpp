#pragma once

#include <string>

/// \file
/// Paths of what tests load and start. Only build_paths.cpp contains the folders of this checkout, so objects of all
/// other tests are the same in every checkout, and a compiler cache serves all.

namespace strata {

/// A file of the build directory, such as "bin/strata". If the build directory was moved, STRATA_MOVED_BUILD in the
/// environment names its new place.
[[nodiscard]] std::string build_path(const std::string& file);
/// A file of the source tree, such as "configs/quickstart.toml".
[[nodiscard]] std::string source_path(const std::string& file);
/// The folder of the plugins that are built.
[[nodiscard]] std::string plugin_folder();
/// The folder of the sample plugins, which only tests load.
[[nodiscard]] std::string sample_plugin_folder();

}  // namespace strata
