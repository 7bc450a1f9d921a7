#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "files/descriptor.hpp"
#include "files/disk.hpp"

namespace strata::host {

/// Part of the names of unfinished folders and files, and of no others.
inline constexpr std::string_view kTemporaryMark = ".tmp-";

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

/// A new file for writing, under a name that Strata chose. A file or link of that name is replaced, and not written
/// through. Failures are RuntimeErrors with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path, const Disk& disk = system_disk());

  void write(const void* data, std::size_t bytes);
  /// Syncs the file to the disk and closes it. Without this call, contents may be lost.
  void finish();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string checksum() const { return checksum_.hex(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const Disk& disk_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
  Checksum checksum_;
};

/// A whole file, mapped read-only. \throws RuntimeError if it cannot be opened or is not a regular file. A pipe or a
/// device is refused without waiting for it.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Syncs the entries of a directory to the disk.
void sync_directory(const std::filesystem::path& directory, const Disk& disk = system_disk());

/// Creates a folder and those that contain it, and syncs their entries.
void make_directories(const std::filesystem::path& directory, const Disk& disk = system_disk());

/// Replaces a file atomically: writes `text` to a temporary file beside `path`, syncs it and renames it. Readers see
/// the old or the new text. Removes temporary files of processes that were killed in between.
void replace_file(const std::filesystem::path& path, std::string_view text, const Disk& disk = system_disk());

/// True if a file of this name is a symbolic link to another file, or to nothing. Strata writes through none. Links to
/// devices, and those of the system's folders /dev and /proc, such as /dev/stdout, are none of these. In /dev/shm,
/// which is memory for any user's files, they are.
[[nodiscard]] bool is_link_to_file(const std::filesystem::path& path);

/// Commands that take long call it before they begin, so that their result has a place. \throws ConfigurationError if
/// `path` is a folder or a symbolic link, or is in a folder that is missing or cannot be written.
void require_named_file(const std::filesystem::path& path);

/// \throws ConfigurationError with the name of the argument if `output`, its value, is the file `source`, which the
/// command reads. `what`: a word for that file, such as "a log".
void require_other_file(const std::string& argument, const std::string& output, const std::filesystem::path& source,
                        const std::string& what);

/// Writes `text` to a path that a user named. A file is replaced atomically. Anything else, such as a pipe or a device,
/// is written to. \throws ConfigurationError as require_named_file() does.
void write_named_file(const std::filesystem::path& path, std::string_view text);

/// The text of a small file. Empty if it is missing, is no regular file, or has more than `most` bytes.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& path, std::size_t most);

/// Reads a text file or a pipe of up to 4 MiB. \throws ConfigurationError that names the file if it cannot be read.
[[nodiscard]] std::string read_text(const std::filesystem::path& path);

/// True if `descriptor` is an open regular file that `path` no longer names, because it was moved or removed.
[[nodiscard]] bool is_moved(int descriptor, const std::filesystem::path& path);

/// A lock on a file, which the system releases when the process ends.
class FileLock {
 public:
  /// \throws RuntimeError with the message `in_use` if another process holds the lock, or with the system's reason if
  /// the file cannot be locked.
  FileLock(const std::filesystem::path& path, const std::string& in_use, const Disk& disk = system_disk());

  /// False if the file system has no locks, so that nothing keeps another process away.
  [[nodiscard]] bool holds() const { return file_.is_open(); }

 private:
  Descriptor file_;
};

/// A folder that appears complete or not at all. Its files are written to a temporary folder beside it, which the
/// destructor removes unless commit() was called.
class NewFolder {
 public:
  /// \throws ConfigurationError if `path` exists already and is no empty folder.
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// The temporary folder.
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  /// \throws RuntimeError if the disk has fewer than `bytes` free.
  void require_space(std::uint64_t bytes) const;
  void write(const std::string& name, const std::string& text) const;
  /// Gives the folder its name, after its entries have reached the disk.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

}  // namespace strata::host
