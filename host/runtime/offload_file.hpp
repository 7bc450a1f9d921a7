#pragma once

#include <cstdint>
#include <filesystem>

namespace strata::host {

/// A rank's file for what lies outside of memory. It has no name: nothing of it is left when the process ends, however
/// it ends. Its size is fixed and reserved on the disk when it is made. Every failure is a RuntimeError with the
/// directory and the system's reason.
class OffloadFile {
 public:
  /// Makes the directory where it is not there. \throws RuntimeError where it cannot be written or lacks room.
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
