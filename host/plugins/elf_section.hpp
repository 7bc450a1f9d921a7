#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/error.hpp"

namespace strata::host {

/// The file cannot be taken as a plugin. The message says why ("it is …") without naming the file.
class PluginFileError : public Error {
 public:
  using Error::Error;
};

/// A file opened for reading at any offset, closed at the end.
class ReadOnlyFile {
 public:
  /// \throws PluginFileError if it cannot be opened or is no regular file.
  explicit ReadOnlyFile(const std::filesystem::path& path);
  ~ReadOnlyFile();
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Exactly `count` bytes. \throws PluginFileError if the file has not got them.
  void read(std::uint64_t offset, void* destination, std::uint64_t count) const;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// The bytes of the first section called `name` of a 64-bit little-endian ELF shared library for this machine's
/// processor; at most `limit` of them. Trusts nothing that the file says, and checks that all its segments lie within
/// it, since the system's loader does not. \throws PluginFileError.
std::vector<std::uint8_t> read_elf_section(const ReadOnlyFile& file, const std::string& name, std::uint64_t limit);

}  // namespace strata::host
