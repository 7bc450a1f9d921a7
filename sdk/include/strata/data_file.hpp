#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "strata/export.hpp"

namespace strata {

/// A file from which a dataset reads. It is never mapped into memory: if it shrinks or its disk fails during a run, a
/// read throws, and no signal ends the process. Thread-safe.
class STRATA_API DataFile {
 public:
  /// \throws ConfigurationError that names the file if it cannot be opened, is no regular file, or is empty.
  explicit DataFile(std::filesystem::path path);
  ~DataFile();
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Size in bytes when the file was opened.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Reads `count` bytes from byte `offset` on. \throws RuntimeError with file, offset, what was found and expected.
  void read(std::int64_t offset, std::int64_t count, void* destination) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

/// A fingerprint of files, as 32 hexadecimal digits: XXH3-128 over the size of each file and over 64 blocks of 4096
/// bytes at equal distances, among them the first and the last. Files up to 1 MiB are hashed whole. So a change in a
/// large file that keeps its size may go unnoticed.
[[nodiscard]] STRATA_API std::string fingerprint(std::span<const DataFile> files);

}  // namespace strata
