#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "strata/plugin.hpp"

namespace strata::host {

/// A plugin's record, as text.
struct PluginDescription {
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::string version;
  std::string licence;
  std::string flavour;
  std::string description;
  std::uint16_t abi_major = 0;
  std::uint16_t abi_minor = 0;
};

/// A file in a plugin folder, judged without running any of its code.
struct PluginFile {
  std::filesystem::path path;
  /// Empty if the file has no readable record.
  std::optional<PluginDescription> description;
  /// Why it is not loaded; empty if it may be.
  std::string refusal;
};

/// Reads the record and checks that this host may load the file: permissions, magic, size, ABI, flavour. Never throws
/// for what the file holds.
PluginFile inspect_plugin_file(const std::filesystem::path& path);

/// Why a file or folder cannot be trusted: others may write it, or another user than root owns it; empty if it can.
std::string distrust(const std::filesystem::path& path);

}  // namespace strata::host
