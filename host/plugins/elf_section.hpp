#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/error.hpp"
#include "strata/library_file.hpp"

namespace strata::host {

/// A file is not an acceptable plugin. The message says why ("it is …") without naming the file.
class PluginFileError : public Error {
 public:
  using Error::Error;
};

/// Reads the first section called `name`, at most `limit` bytes, of a 64-bit little-endian ELF shared library for this
/// machine's processor. Trusts no number in the file. Checks what the dynamic loader follows without a check of its
/// own. \throws PluginFileError for damaged or unsuitable files.
std::vector<std::uint8_t> read_elf_section(const LibraryFile& file, const std::string& name, std::uint64_t limit);

}  // namespace strata::host
