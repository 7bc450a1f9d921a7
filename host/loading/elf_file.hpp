#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/error.hpp"
#include "strata/internal/library_file.hpp"

namespace strata::host {

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
