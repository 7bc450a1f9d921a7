#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// The file of a shared library, opened once for reading, with a judgement of who may change it. Errors and judgements
/// are texts that continue the file's name, such as "it can be written by anyone; …".
class STRATA_API LibraryFile {
 public:
  /// Follows `path` from the root, folder by folder and link by link, judges each of them, and opens the file at the
  /// end. \throws ConfigurationError if it cannot be read or is not a regular file.
  explicit LibraryFile(const std::filesystem::path& path);
  ~LibraryFile();
  LibraryFile(const LibraryFile&) = delete;
  LibraryFile& operator=(const LibraryFile&) = delete;

  /// Where the file is: absolute, without links.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Reads exactly `count` bytes. \throws ConfigurationError if the file is too short.
  void read(std::uint64_t offset, void* destination, std::uint64_t count) const;

  /// Why someone other than root and the user might replace or change the file. Empty if nobody can.
  [[nodiscard]] const std::string& distrust() const { return distrust_; }
  /// Permissions on the way that are wider than necessary, each with what to change.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// \throws ConfigurationError if the file was changed, or another file took its place, since it was opened.
  void require_unchanged() const;
  /// \throws ConfigurationError unless `handle`, a result of dlopen(), is this file.
  void require_loaded(void* handle) const;
  /// Loads the library for good. \return the handle for dlsym(). \throws ConfigurationError also if it is distrusted.
  void* load() const;

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  std::int64_t modified_ = 0;
  std::string distrust_;
  std::vector<std::string> warnings_;
};

/// Loads, for good, a library that the user names, such as NCCL's. A name with a slash is a path, which is judged as
/// the path of a plugin is. The loader searches for any other name, such as "libnccl.so.2". \return the handle for
/// dlsym(). \throws ConfigurationError with the library's name.
STRATA_API void* load_library(const std::string& library);

}  // namespace strata
