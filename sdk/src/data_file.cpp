#include "strata/data_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "strata/error.hpp"

namespace strata {
namespace {

constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kBlocks = 64;
/// Files up to this size are hashed whole.
constexpr std::int64_t kSmallFile = 1 << 20;

void hash(XXH3_state_t& state, const DataFile& file, std::int64_t offset, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  file.read(offset, count, bytes.data());
  XXH3_128bits_update(&state, bytes.data(), bytes.size());
}

}  // namespace

DataFile::DataFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto refuse = [&](const std::string& what) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw ConfigurationError("'" + path_.string() + "': " + what);
  };
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) refuse("is not a regular file");
  if (status.st_size == 0) refuse("the file is empty");
  bytes_ = status.st_size;
}

DataFile::~DataFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

void DataFile::read(std::int64_t offset, std::int64_t count, void* destination) const {
  auto* next = static_cast<std::byte*>(destination);
  std::int64_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(descriptor_, next + done, static_cast<std::size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      done += got;
      continue;
    }
    const std::string found = got < 0 ? std::strerror(errno) : "the end of the file";
    throw RuntimeError("'" + path_.string() + "': found " + found + " at byte " + std::to_string(offset + done) +
                       "; expected " + std::to_string(count - done) + " more bytes, since the file had " +
                       std::to_string(bytes_) + " when the run began");
  }
}

std::string fingerprint(std::span<const DataFile> files) {
  const auto state = std::make_unique<XXH3_state_t>();
  XXH3_128bits_reset(state.get());
  for (const DataFile& file : files) {
    const std::int64_t size = file.bytes();
    XXH3_128bits_update(state.get(), &size, sizeof size);
    if (size <= kSmallFile) {
      hash(*state, file, 0, size);
      continue;
    }
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      hash(*state, file, (size - kBlock) * block / (kBlocks - 1), kBlock);
    }
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(state.get());
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(digest.high64),
                static_cast<unsigned long long>(digest.low64));
  return text.data();
}

}  // namespace strata
