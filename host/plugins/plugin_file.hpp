#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "strata/plugin.hpp"

namespace strata::host {

/// The contents of a plugin's record.
struct PluginDescription {
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::string version;
  std::string licence;
  std::string flavour;
  std::string description;
  std::uint16_t abi = 0;
};

/// A file in a plugin folder, inspected without running its code.
struct PluginFile {
  std::filesystem::path path;
  /// Empty if the file has no valid record.
  std::optional<PluginDescription> description;
  /// Why the file may not be loaded. Empty if it may.
  std::string refusal;
};

/// Reads the record and checks that the host may load the file: permissions, magic, size, ABI, flavour. Never throws
/// because of the file's contents.
PluginFile inspect_plugin_file(const std::filesystem::path& path);

/// Why a file or folder cannot be trusted: other users may write it, or its owner is neither this user nor root. Empty
/// if it can.
std::string distrust(const std::filesystem::path& path);

}  // namespace strata::host
