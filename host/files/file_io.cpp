#include "files/file_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "files/text_format.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// True for names that the system gives to devices and open files, such as /dev/stdout and /proc/self/fd/1.
bool is_of_system(const fs::path& path) {
  const std::string name = path.string();
  return (name.starts_with("/dev/") && !name.starts_with("/dev/shm/")) || name.starts_with("/proc/");
}

/// True for a path that replace_file() writes. /dev/stdout may be a file that other programs write to as well.
bool is_replaceable(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return !is_of_system(path) && (!fs::exists(status) || fs::is_regular_file(status));
}

/// Bytes of a configuration. The largest of configs/ has 2 KiB.
constexpr std::size_t kLargestText = std::size_t{4} << 20U;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  const int reason = errno;
  throw RuntimeError("'" + path.string() + "': " + what + ": " + std::strerror(reason));
}

Descriptor open_or_fail(const fs::path& path, int flags, const std::string& what) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open() && errno == ELOOP && (flags & O_NOFOLLOW) != 0) {
    throw RuntimeError("'" + path.string() + "': " + what + ": it is a symbolic link; accepted: the file itself");
  }
  if (!file.is_open()) fail(path, what);
  return file;
}

/// Opens a new file for writing. What a link of this name points to, by hard link too, stays as it is.
Descriptor create_or_fail(const fs::path& path) {
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  const bool is_other = exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode);
  if (exists && !is_other) ::unlink(path.c_str());
  const int only_new = is_other ? 0 : O_CREAT | O_EXCL;
  return open_or_fail(path, O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOFOLLOW | only_new, "cannot be created");
}

/// Appends some bytes of an open file or pipe. \return false at its end.
bool append_bytes(int descriptor, std::string& text) {
  std::array<char, 65536> bytes;
  while (true) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got >= 0) {
      text.append(bytes.data(), static_cast<std::size_t>(got));
      return got > 0;
    }
    if (errno == EAGAIN) {
      pollfd waiting{descriptor, POLLIN, 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      throw ConfigurationError(std::strerror(errno));
    }
  }
}

/// As read_text(), with errors that do not name the file. A pipe, as `strata check <(generate)` passes, is read once.
std::string whole_text(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0) throw ConfigurationError(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw ConfigurationError("it is a folder");
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) {
    throw ConfigurationError("it is no regular file and no pipe");
  }
  std::string text;
  while (append_bytes(file.number(), text)) {
    if (text.size() <= kLargestText) continue;
    throw ConfigurationError(fmt::format("it is larger than a configuration; accepted: up to {} bytes", kLargestText));
  }
  if (text.empty() && S_ISFIFO(status.st_mode)) {
    throw ConfigurationError("it is a pipe into which nobody has written");
  }
  return text;
}

/// Removes the files `prefix` + N of `folder` for which there is no process N: a kill has left them.
void remove_temporaries_of_the_dead(const fs::path& folder, std::string_view prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const pid_t process = parse_number<pid_t>(std::string_view(name).substr(prefix.size())).value_or(0);
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) fs::remove(entry.path(), ignored);
  }
}

/// The path without a trailing slash, so that a name can follow.
fs::path named(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

}  // namespace

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(const void* data, std::size_t bytes) { XXH3_128bits_update(&state_->xxh3, data, bytes); }

std::string Checksum::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

std::string checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.update(bytes.data(), bytes.size());
  return checksum.hex();
}

OutputFile::OutputFile(fs::path path, const Disk& disk)
    : path_(std::move(path)), disk_(disk), file_(create_or_fail(path_)) {}

void OutputFile::write(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  std::size_t left = bytes;
  while (left > 0) {
    const ssize_t written = disk_.write(file_.number(), next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot be written");
    next += written;
    left -= static_cast<std::size_t>(written);
  }
  checksum_.update(data, bytes);
  bytes_ += bytes;
}

void OutputFile::finish() {
  if (disk_.sync(file_.number()) != 0) fail(path_, "cannot be synced");
  if (::close(file_.release()) != 0) fail(path_, "cannot be closed");
}

MappedFile::MappedFile(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const Descriptor file = open_or_fail(path, O_RDONLY | O_NONBLOCK, "cannot be opened");
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw RuntimeError("'" + path.string() + "': is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) fail(path, "cannot be mapped into memory");
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void sync_directory(const fs::path& directory, const Disk& disk) {
  const Descriptor folder = open_or_fail(directory, O_RDONLY | O_DIRECTORY, "cannot be opened");
  if (disk.sync(folder.number()) != 0) fail(directory, "cannot be synced");
}

void make_directories(const fs::path& directory, const Disk& disk) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path each = directory; !fs::exists(each, error); each = parent_of(each)) {
    missing.push_back(each);
    if (parent_of(each) == each) break;
  }
  fs::create_directories(directory, error);
  if (error) {
    std::string reason = error.message();
    for (const fs::path& each : missing) {
      if (!fs::is_symlink(fs::symlink_status(each, error))) continue;
      reason = "'" + each.string() + "' is a symbolic link to '" + fs::read_symlink(each, error).string() +
               "', which does not exist";
    }
    throw RuntimeError("'" + directory.string() + "': cannot be created: " + reason);
  }
  for (const fs::path& each : missing) sync_directory(parent_of(each), disk);
}

void replace_file(const fs::path& path, std::string_view text, const Disk& disk) {
  // The number of the process that replaces the file follows.
  const std::string prefix = path.filename().string() + std::string(kTemporaryMark);
  const fs::path folder = parent_of(path);
  remove_temporaries_of_the_dead(folder, prefix);
  const fs::path temporary = folder / (prefix + std::to_string(::getpid()));
  try {
    OutputFile file(temporary, disk);
    file.write(text.data(), text.size());
    file.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "cannot be replaced");
  } catch (...) {
    // Remove the temporary file, which may fill the disk.
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(folder, disk);
}

bool is_link_to_file(const fs::path& path) {
  std::error_code ignored;
  if (is_of_system(path)) return false;
  return fs::is_symlink(fs::symlink_status(path, ignored)) && !fs::is_character_file(fs::status(path, ignored));
}

void require_named_file(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = parent_of(path);
  const auto refuse = [&](const std::string& found) {
    throw ConfigurationError("'" + path.string() + "': " + found +
                             "; accepted: a file in a folder that may be written");
  };
  if (is_link_to_file(path)) {
    throw ConfigurationError("'" + path.string() + "' is a symbolic link; accepted: the name of the file itself");
  }
  if (fs::is_directory(path, ignored)) refuse("found a folder");
  if (!fs::is_directory(folder, ignored)) refuse("there is no folder '" + folder.string() + "'");
  if (is_replaceable(path) && ::access(folder.c_str(), W_OK) != 0) {
    refuse("the folder '" + folder.string() + "' cannot be written: " + std::generic_category().message(errno));
  }
}

void require_other_file(const std::string& argument, const std::string& output, const fs::path& source,
                        const std::string& what) {
  std::error_code ignored;
  if (!fs::equivalent(source, output, ignored)) return;
  throw ConfigurationError(argument + ": found '" + output + "', which is " + what +
                           " to read; accepted: another file");
}

void write_named_file(const fs::path& path, std::string_view text) {
  require_named_file(path);
  if (is_replaceable(path)) return replace_file(path, text);
  std::ofstream stream(path, std::ios::binary | std::ios::app);
  stream << text << std::flush;
  if (!stream) fail(path, "cannot be written");
}

std::string read_small_file(const fs::path& path, std::size_t most) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  const MappedFile file(path);
  return file.bytes().size() > most ? "" : std::string(file.text());
}

bool is_moved(int descriptor, const fs::path& path) {
  struct stat own {};
  if (::fstat(descriptor, &own) != 0 || !S_ISREG(own.st_mode)) return false;
  struct stat named {};
  const bool is_there = ::stat(path.c_str(), &named) == 0;
  return !is_there || named.st_dev != own.st_dev || named.st_ino != own.st_ino;
}

FileLock::FileLock(const fs::path& path, const std::string& in_use, const Disk& disk)
    : file_(open_or_fail(path, O_RDWR | O_CREAT | O_NOFOLLOW, "cannot be created")) {
  int failed = 0;
  do failed = disk.lock(file_.number());
  while (failed != 0 && errno == EINTR);
  if (failed == 0) return;
  if (errno == EWOULDBLOCK) throw RuntimeError(in_use);
  // Some network file systems have no locks.
  if (errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) fail(path, "cannot be locked");
  file_.close();
}

std::string read_text(const fs::path& path) {
  try {
    return whole_text(path);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(message_text(path.string() + ": cannot be read: " + error.what(), kLongestErrorText));
  }
}

NewFolder::NewFolder(const fs::path& path)
    : path_(named(path)), temporary_(path_.string() + std::string(kTemporaryMark) + std::to_string(::getpid())) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path_, ignored);
  const bool is_free = !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(path_, ignored));
  if (path_.empty() || !is_free) {
    throw ConfigurationError("'" + path_.string() + "': exists already; accepted: the name of a new folder");
  }
  make_directories(parent_of(path_));
  fs::remove_all(temporary_, ignored);
  make_directories(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::require_space(std::uint64_t bytes) const {
  const std::uint64_t available = system_disk().free_bytes(temporary_);
  if (available >= bytes) return;
  throw RuntimeError(fmt::format("'{}': needs {} bytes, but {} are free", path_.string(), bytes, available));
}

void NewFolder::write(const std::string& name, const std::string& text) const {
  OutputFile file(temporary_ / name);
  file.write(text.data(), text.size());
  file.finish();
}

void NewFolder::commit() {
  sync_directory(temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw RuntimeError("'" + path_.string() + "': cannot be put in place: " + std::strerror(errno));
  }
  temporary_.clear();
  sync_directory(parent_of(path_));
}

}  // namespace strata::host
