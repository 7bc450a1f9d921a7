#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "files/disk.hpp"

namespace strata::host::test {

/// A disk on a file system such as NFS, which cannot exchange two names.
class DiskWithoutExchange : public Disk {
 public:
  int exchange(const std::filesystem::path& /*a*/, const std::filesystem::path& /*b*/) const override {
    errno = EINVAL;
    return -1;
  }
};

/// A disk with this much free space.
class DiskWithSpace : public Disk {
 public:
  explicit DiskWithSpace(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t free_bytes(const std::filesystem::path& /*directory*/) const override { return bytes_; }

 private:
  std::uint64_t bytes_;
};

/// A disk on which no file can be locked, for the reason `error`.
class DiskWithoutLocks : public Disk {
 public:
  explicit DiskWithoutLocks(int error) : error_(error) {}
  int lock(int /*descriptor*/) const override {
    errno = error_;
    return -1;
  }

 private:
  int error_;
};

/// A disk that is full while fill(true) holds.
class FullDisk : public Disk {
 public:
  ssize_t write(int descriptor, const void* data, std::size_t bytes) const override {
    if (!full_) return Disk::write(descriptor, data, bytes);
    errno = ENOSPC;
    return -1;
  }
  void fill(bool full) { full_ = full; }

 private:
  std::atomic<bool> full_ = false;
};

/// A disk that writes nothing until it is opened.
class StoppedDisk : public Disk {
 public:
  ssize_t write(int descriptor, const void* data, std::size_t bytes) const override {
    std::unique_lock lock(mutex_);
    // A test that waits for the disk should fail, not hang.
    opened_.wait_for(lock, std::chrono::seconds(60), [&] { return open_; });
    return Disk::write(descriptor, data, bytes);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool open_ = true;
};

/// A disk whose every sync takes a while.
class SlowDisk : public Disk {
 public:
  explicit SlowDisk(std::chrono::milliseconds sync) : sync_(sync) {}
  int sync(int descriptor) const override {
    std::this_thread::sleep_for(sync_);
    return Disk::sync(descriptor);
  }

 private:
  std::chrono::milliseconds sync_;
};

}  // namespace strata::host::test
