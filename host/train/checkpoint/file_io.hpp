#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace strata::host {

/// An incremental XXH3-128 checksum.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void update(const void* data, std::size_t bytes);
  /// The checksum of all bytes so far, as 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The checksum of `bytes`.
[[nodiscard]] std::string checksum_of(std::span<const std::byte> bytes);

/// A new file for writing. Failures are RuntimeErrors with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// Syncs the file to the disk and closes it. Without this call, contents may be lost.
  void finish();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string checksum() const { return checksum_.hex(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  Checksum checksum_;
};

/// A whole file, mapped read-only. \throws RuntimeError if it cannot be opened or is not a regular file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Syncs the entries of a directory to the disk.
void sync_directory(const std::filesystem::path& directory);

/// Replaces a file atomically: writes `text` to a temporary file beside `path`, syncs it and renames it. Readers see
/// the old or the new text.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Renames `from` to `to` in one step. If `to` is an existing directory, the two exchange their names.
void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);

/// Bytes that this user may still write on the file system of `directory`.
[[nodiscard]] std::uint64_t free_bytes(const std::filesystem::path& directory);

/// A lock on a file, which the system releases when the process ends. \throws RuntimeError with the message `in_use` if
/// another process holds it.
class FileLock {
 public:
  FileLock(const std::filesystem::path& path, const std::string& in_use);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace strata::host
