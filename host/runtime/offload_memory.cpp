#include "runtime/offload_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

std::shared_ptr<std::byte> map_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return {static_cast<std::byte*>(memory), [size](std::byte* at) { ::munmap(at, size); }};
  throw RuntimeError("no " + std::to_string(bytes) + " bytes of host memory to offload to: " + std::strerror(errno));
}

constexpr int kOwnerOnly = 0600;

/// Opens a file without a name. \return its descriptor, or -1 with errno.
int open_nameless(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  // Some file systems do not support nameless files. Then create a file with a name and unlink it at once.
  std::string path = directory / "offload-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

OffloadMemory::OffloadMemory(const OffloadBytes& bytes, const std::filesystem::path& directory) : bytes_(bytes) {
  if (bytes.host > 0) host_ = map_memory(bytes.host);
  if (bytes.file > 0) file_.emplace(directory, bytes.file);
}

void OffloadMemory::touch(MemoryPlace place, std::int64_t end) {
  std::int64_t& peak = place == MemoryPlace::host ? peak_.host : peak_.file;
  peak = std::max(peak, end);
}

void OffloadMemory::read(MemoryPlace place, std::int64_t offset, void* data, std::int64_t bytes) const {
  if (place == MemoryPlace::file) return file_.value().read(offset, data, bytes);
  std::memcpy(data, host() + offset, static_cast<std::size_t>(bytes));
}

void OffloadMemory::write(MemoryPlace place, std::int64_t offset, const void* data, std::int64_t bytes) const {
  if (place == MemoryPlace::file) return file_.value().write(offset, data, bytes);
  std::memcpy(host() + offset, data, static_cast<std::size_t>(bytes));
}

std::shared_ptr<OffloadMemory> make_offload_memory(const OffloadBytes& bytes, const std::filesystem::path& directory) {
  if (bytes == OffloadBytes{}) return nullptr;
  return std::make_shared<OffloadMemory>(bytes, directory);
}

OffloadFile::OffloadFile(std::filesystem::path directory, std::int64_t bytes) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) fail("cannot be created", error.value());
  descriptor_ = open_nameless(directory_);
  if (descriptor_ < 0) fail("no file can be created there", errno);
  try {
    reserve(bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OffloadFile::~OffloadFile() { ::close(descriptor_); }

/// Reserves the disk space. Checks known limits first, because otherwise the file system would fill up before the
/// failure, and because exceeding RLIMIT_FSIZE kills the process.
void OffloadFile::reserve(std::int64_t bytes) const {
  const std::string needed = "has no room for " + std::to_string(bytes) + " bytes";
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (is_limited && static_cast<std::uint64_t>(bytes) > limit.rlim_cur) {
    fail(needed + ", a file may have " + std::to_string(limit.rlim_cur), EFBIG);
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory_, error);
  if (!error && static_cast<std::uint64_t>(bytes) > space.available) {
    fail(needed + ", " + std::to_string(space.available) + " are free", ENOSPC);
  }
  int reason = EINTR;
  while (reason == EINTR) reason = ::posix_fallocate(descriptor_, 0, bytes);
  if (reason != 0) fail(needed, reason);
}

void OffloadFile::read(std::int64_t offset, void* data, std::int64_t bytes) const {
  for (std::int64_t done = 0; done < bytes;) {
    const ssize_t count = ::pread(descriptor_, static_cast<std::byte*>(data) + done,
                                  static_cast<std::size_t>(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    const std::string at = " at byte " + std::to_string(offset + done);
    if (count < 0) fail("its file cannot be read" + at, errno);
    if (count == 0) fail("its file ends" + at, EIO);
    done += count;
  }
}

void OffloadFile::write(std::int64_t offset, const void* data, std::int64_t bytes) const {
  for (std::int64_t done = 0; done < bytes;) {
    const ssize_t count = ::pwrite(descriptor_, static_cast<const std::byte*>(data) + done,
                                   static_cast<std::size_t>(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("its file cannot be written at byte " + std::to_string(offset + done), errno);
    done += count;
  }
}

void OffloadFile::fail(const std::string& what, int reason) const {
  throw RuntimeError("offload directory '" + directory_.string() + "': " + what + ": " + std::strerror(reason));
}

}  // namespace strata::host
