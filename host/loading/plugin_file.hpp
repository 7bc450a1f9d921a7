#pragma once

#include <elf.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/error.hpp"
#include "strata/internal/library_file.hpp"
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
  /// Permissions that are wider than necessary.
  std::vector<std::string> warnings;
  /// The file, open from its inspection until it is loaded, so that both concern the same one. Null if it cannot be
  /// read.
  std::shared_ptr<const LibraryFile> library;
};

/// Reads the record and checks that the host may load the file: permissions of the file and of all folders on the way
/// to it, magic, size, ABI, flavour. Never throws because of the file.
PluginFile inspect_plugin_file(const std::filesystem::path& path);

/// Compares a plugin with the checksums that strata_add_plugin() stored in it when it was built: one line per section,
/// `SHA-256 NAME`, in the section `.strata_checksums`. They hold for what the loader and the program read, and not for
/// what installing and stripping change: the search path of libraries, the build id and debug information. A plugin
/// without checksums, of another build system, is not judged. \throws PluginFileError for a damaged file.
void check_plugin_checksums(const LibraryFile& file);

/// A file is not an acceptable plugin. The message says why ("it is …") without naming the file.
class PluginFileError : public Error {
 public:
  using Error::Error;
};

/// A 64-bit little-endian ELF shared library for this machine's processor. Trusts no number in the file.
class ElfFile {
 public:
  /// Checks what the dynamic loader follows without a check of its own: a damaged file would end the process. Segments
  /// lie within the file, one after another in memory. Each address and size of the dynamic segment is that of a
  /// section, since the file has these numbers twice. Relocations write to data only. Damage of what the addresses
  /// point to, such as code, is not found. `file` outlives the object. \throws PluginFileError for damaged or
  /// unsuitable files.
  explicit ElfFile(const LibraryFile& file);

  /// At most `limit` bytes of the first section called `name`. Empty if there is none. \throws PluginFileError if it is
  /// damaged.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> read(const std::string& name, std::uint64_t limit) const;

 private:
  const LibraryFile& file_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_ = {};
};

}  // namespace strata::host
