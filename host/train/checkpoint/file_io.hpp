#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace strata::host {

/// XXH3-128 over bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void update(const void* data, std::size_t bytes);
  /// 32 hexadecimal digits of what came so far.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The checksum of one run of bytes.
[[nodiscard]] std::string checksum_of(std::span<const std::byte> bytes);

/// A new file being written. Every failure is a RuntimeError with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// Forces everything onto the disk and closes the file; without it nothing is promised.
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

/// A whole file, read-only in memory. \throws RuntimeError if it cannot be opened or is no regular file.
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

/// Forces a directory's entries onto the disk.
void sync_directory(const std::filesystem::path& directory);

/// Writes `text` to a temporary beside `path`, syncs it and renames it: a reader sees the old or the new text.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Makes `from` appear as `to` in one step, also where `to` is a directory that exists (it then has the name `from`).
void rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);

/// Bytes that this user may still write where `directory` lies.
[[nodiscard]] std::uint64_t free_bytes(const std::filesystem::path& directory);

/// A lock that ends with the process that holds it. \throws RuntimeError with `in_use` if another process has it.
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
