#pragma once

#include "strata/internal/library_file.hpp"

namespace strata::host {

/// Compares a plugin with the checksums that strata_add_plugin() stored in it when it was built: one line per section,
/// `SHA-256 NAME`, in the section `.strata_checksums`. They hold for what the loader and the program read, and not for
/// what installing and stripping change: the search path of libraries, the build id and debug information. A plugin
/// without checksums, of another build system, is not judged. \throws PluginFileError for a damaged file.
void check_plugin_checksums(const LibraryFile& file);

}  // namespace strata::host
