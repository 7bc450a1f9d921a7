#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/error.hpp"

namespace strata::host {

/// A file is not an acceptable plugin. The message says why ("it is …") without naming the file.
class PluginFileError : public Error {
 public:
  using Error::Error;
};

/// A file that is open for reading.
class ReadOnlyFile {
 public:
  /// \throws PluginFileError if it cannot be opened or is not a regular file.
  explicit ReadOnlyFile(const std::filesystem::path& path);
  ~ReadOnlyFile();
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Reads exactly `count` bytes. \throws PluginFileError if the file is too short.
  void read(std::uint64_t offset, void* destination, std::uint64_t count) const;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Reads the first section called `name`, at most `limit` bytes, of a 64-bit little-endian ELF shared library for this
/// machine's processor. Trusts no number in the file. Checks that all segments lie within the file, because the dynamic
/// loader does not. \throws PluginFileError for damaged or unsuitable files.
std::vector<std::uint8_t> read_elf_section(const ReadOnlyFile& file, const std::string& name, std::uint64_t limit);

}  // namespace strata::host
