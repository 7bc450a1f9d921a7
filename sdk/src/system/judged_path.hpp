#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace strata {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// True if `group` is the private group of `user`, as many systems make one for every user: it is the user's primary
/// group, has the user's name, and has no other member. If the answer cannot be found, it is false.
bool is_private_group(uid_t user, gid_t group);

/// A regular file that was opened by following a path from the root, with what was found on the way.
struct JudgedPath {
  Descriptor file;
  /// Absolute, without links.
  std::filesystem::path path;
  /// Why someone other than root and the user might replace or change the file. Empty if nobody can.
  std::string distrust;
  std::vector<std::string> warnings;
};

/// Opens each folder relative to the one before and judges it by its descriptor. So what is judged is what is followed,
/// even if someone changes the path meanwhile.
///
/// - A folder, a link and the file must belong to root or the user.
/// - Neither group nor others may write a folder or the file. A sticky folder, such as /tmp, may be written by all if
///   the entry that is followed belongs to root or the user, since then nobody else can replace that entry.
/// - The owner's private group may write, with a warning, because an umask of 002 makes such folders.
///
/// An access control list that grants others write access shows as write access of the group.
///
/// \throws ConfigurationError if the file cannot be read or is not a regular file.
JudgedPath open_judged(const std::filesystem::path& path);

}  // namespace strata
