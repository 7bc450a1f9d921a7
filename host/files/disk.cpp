#include "files/disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "strata/error.hpp"

namespace strata::host {

Disk::~Disk() = default;

ssize_t Disk::write(int descriptor, const void* data, std::size_t bytes) const {
  return ::write(descriptor, data, bytes);
}

int Disk::sync(int descriptor) const { return ::fsync(descriptor); }

int Disk::exchange(const std::filesystem::path& a, const std::filesystem::path& b) const {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
}

int Disk::link(const std::filesystem::path& existing, const std::filesystem::path& name) const {
  // The file itself: a symbolic link would dangle when its target goes.
  return ::linkat(AT_FDCWD, existing.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
}

int Disk::lock(int descriptor) const { return ::flock(descriptor, LOCK_EX | LOCK_NB); }

std::uint64_t Disk::free_bytes(const std::filesystem::path& directory) const {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) {
    throw RuntimeError("'" + directory.string() + "': free space is unknown: " + std::strerror(errno));
  }
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

const Disk& system_disk() {
  static const Disk disk;
  return disk;
}

}  // namespace strata::host
