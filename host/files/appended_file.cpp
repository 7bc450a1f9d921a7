#include "files/appended_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "files/file_io.hpp"

namespace strata::host {
namespace {

/// The size of a regular file. Empty for a pipe or a device.
std::optional<off_t> size_of(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return found.st_size;
}

}  // namespace

AppendedFile::~AppendedFile() {
  // A run that was refused leaves no empty file.
  if (is_new_ && size_of(file_.number()) == 0 && !is_moved(file_.number(), path_)) ::unlink(path_.c_str());
}

bool AppendedFile::open() {
  file_.close();
  if (is_link_to_file(path_)) {
    failure_ = label_ + " is a symbolic link; accepted: the name of the file itself";
    return false;
  }
  std::error_code ignored;
  is_new_ = is_new_ || !std::filesystem::exists(path_, ignored);
  const int more = waits_ ? 0 : O_NONBLOCK;
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | more, 0666));
  if (!file_.is_open()) return fail("cannot be opened", errno);
  // Some network file systems have no locks. There, nothing keeps another run away.
  const bool is_taken =
      size_of(file_.number()) && ::flock(file_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_taken) return true;
  file_.close();
  failure_ = label_ + " is in use by another run";
  return false;
}

void AppendedFile::clear() {
  if (size_of(file_.number()) && ::ftruncate(file_.number(), 0) != 0) fail("cannot be emptied", errno);
}

bool AppendedFile::append(std::string_view record) {
  if (file_.is_open() && is_moved(file_.number(), path_)) file_.close();
  if (!file_.is_open() && !open()) return false;
  const std::optional<off_t> begin = size_of(file_.number());
  const int error = write_all(file_.number(), record);
  if (error == 0) return true;
  // The file keeps its whole records even if this fails too: the torn one is then the last.
  [[maybe_unused]] const int cut = begin ? ::ftruncate(file_.number(), *begin) : 0;
  return fail("cannot be written", error);
}

bool AppendedFile::fail(const std::string& what, int error) {
  failure_ = label_ + ": " + what + ": " + std::strerror(error);
  return false;
}

}  // namespace strata::host
