#pragma once

#include <cstdint>
#include <filesystem>

namespace strata::host {

/// A rank's file for offloaded buffers. It has no name, so it vanishes when the process ends in any way. Its size is
/// fixed, and its disk space is reserved at creation. Failures are RuntimeErrors with the directory and the system's
/// reason.
class OffloadFile {
 public:
  /// Creates the directory if necessary. \throws RuntimeError if the directory is not writable or lacks space.
  OffloadFile(std::filesystem::path directory, std::int64_t bytes);
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  void read(std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(std::int64_t offset, const void* data, std::int64_t bytes) const;

 private:
  void reserve(std::int64_t bytes) const;
  [[noreturn]] void fail(const std::string& what, int reason) const;

  std::filesystem::path directory_;
  int descriptor_ = -1;
};

}  // namespace strata::host
