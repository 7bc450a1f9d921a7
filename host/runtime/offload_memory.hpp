#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/memory/memory_plan.hpp"
#include "strata/tensor.hpp"

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

/// A rank's zeroed memory outside of its device. Its size is exactly the planned one. The programs of a rank share it,
/// as they share the arena.
class OffloadMemory {
 public:
  /// `directory`: folder of the file, if one is needed. \throws RuntimeError if there is not enough space.
  OffloadMemory(const OffloadBytes& bytes, const std::filesystem::path& directory);

  [[nodiscard]] const OffloadBytes& bytes() const { return bytes_; }
  /// Largest offsets, in bytes, that have been used so far.
  [[nodiscard]] const OffloadBytes& peak() const { return peak_; }
  void touch(MemoryPlace place, std::int64_t end);

  /// The memory of MemoryPlace::host.
  [[nodiscard]] std::byte* host() const { return host_.get(); }
  /// Copies from (read) or to (write) host memory or the file.
  void read(MemoryPlace place, std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(MemoryPlace place, std::int64_t offset, const void* data, std::int64_t bytes) const;

 private:
  OffloadBytes bytes_;
  OffloadBytes peak_;
  std::shared_ptr<std::byte> host_;
  std::optional<OffloadFile> file_;
};

/// The memory of a rank outside of its device. Null if `bytes` are zero.
[[nodiscard]] std::shared_ptr<OffloadMemory> make_offload_memory(const OffloadBytes& bytes,
                                                                 const std::filesystem::path& directory);

}  // namespace strata::host
