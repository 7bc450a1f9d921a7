#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace strata::host {

/// The calls of the operating system that write checkpoints. Tests and benchmarks substitute slow or failing disks. As
/// in the system, a result of -1 means failure, with the reason in errno. Thread-safe.
class Disk {
 public:
  Disk() = default;
  virtual ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// As write(2).
  virtual ssize_t write(int descriptor, const void* data, std::size_t bytes) const;
  /// As fsync(2).
  virtual int sync(int descriptor) const;
  /// Exchanges the names of two files or folders in one step, as renameat2(2) does with RENAME_EXCHANGE. File systems
  /// such as NFS cannot.
  virtual int exchange(const std::filesystem::path& a, const std::filesystem::path& b) const;
  /// Gives the file `existing` a second name, as link(2) does. Some file systems cannot.
  virtual int link(const std::filesystem::path& existing, const std::filesystem::path& name) const;
  /// Locks a file for this process without waiting, as flock(2) does.
  virtual int lock(int descriptor) const;
  /// Bytes that this user may still write on the file system of `directory`. \throws RuntimeError if that is unknown.
  [[nodiscard]] virtual std::uint64_t free_bytes(const std::filesystem::path& directory) const;
};

/// The system's own calls.
[[nodiscard]] const Disk& system_disk();

}  // namespace strata::host
