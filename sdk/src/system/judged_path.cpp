#include "judged_path.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strata/error.hpp"

namespace strata {
namespace {

/// Entries longer than this are not read.
constexpr std::size_t kLargestEntry = std::size_t{1} << 24U;

/// Calls `read(buffer)` with ever larger buffers until the entry fits.
template <class Read>
int read_entry(std::vector<char>& buffer, const Read& read) {
  int error = ERANGE;
  for (std::size_t size = 4096; error == ERANGE && size <= kLargestEntry; size *= 4) {
    buffer.resize(size);
    error = read();
  }
  return error;
}

/// The user's name, if `group` is the user's primary group.
std::optional<std::string> name_if_primary(uid_t user, gid_t group) {
  std::vector<char> buffer;
  struct passwd entry {};
  struct passwd* found = nullptr;
  const int error =
      read_entry(buffer, [&] { return ::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found); });
  if (error != 0 || found == nullptr || entry.pw_gid != group) return std::nullopt;
  return std::string(entry.pw_name);
}

/// True if the group is called `name` and lists no member, or only the user `name`.
bool lists_only(const std::string& name, gid_t group) {
  std::vector<char> buffer;
  struct group entry {};
  struct group* found = nullptr;
  const int error =
      read_entry(buffer, [&] { return ::getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found); });
  if (error != 0 || found == nullptr || entry.gr_name != name) return false;
  char** end = entry.gr_mem;
  while (*end != nullptr) ++end;
  return std::all_of(entry.gr_mem, end, [&](const char* member) { return member == name; });
}

/// True if `group` is the primary group of another user. Directories such as LDAP often do not list their users. Hence
/// the test of the group's name beside this one: groups that users share are not called after one of them.
bool has_other_primary_user(uid_t user, gid_t group) {
  static std::mutex position;  // getpwent_r() continues where the process's last call ended
  const std::lock_guard lock(position);
  ::setpwent();
  std::vector<char> buffer;
  struct passwd entry {};
  bool other = false;
  for (struct passwd* found = nullptr; !other; other = entry.pw_gid == group && entry.pw_uid != user) {
    const int error = read_entry(buffer, [&] { return ::getpwent_r(&entry, buffer.data(), buffer.size(), &found); });
    if (error != 0 || found == nullptr) break;
  }
  ::endpwent();
  return other;
}

}  // namespace

bool is_private_group(uid_t user, gid_t group) {
  const std::optional<std::string> name = name_if_primary(user, group);
  return name && lists_only(*name, group) && !has_other_primary_user(user, group);
}

namespace {

using Status = struct stat;

/// As many links as the kernel follows.
constexpr int kMostLinks = 40;

ConfigurationError unreadable(int error) {
  return ConfigurationError(std::string("it cannot be read: ") + std::strerror(error));
}

Status status_of(const Descriptor& descriptor) {
  Status status{};
  if (::fstat(descriptor.number(), &status) != 0) throw unreadable(errno);
  return status;
}

bool is_root_or_user(uid_t owner) { return owner == 0 || owner == ::geteuid(); }

class Walk {
 public:
  JudgedPath follow(const std::filesystem::path& path) {
    enter_root();
    push_front(path);
    while (judged_.file.number() < 0) step();
    judged_.path = where();
    return std::move(judged_);
  }

 private:
  /// A folder on the way, without links.
  struct Folder {
    Descriptor descriptor;
    std::string name;
    Status status;
  };

  void enter_root() {
    Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (root.number() < 0) throw unreadable(errno);
    const Status status = status_of(root);
    folders_.clear();
    folders_.push_back({std::move(root), "", status});
  }

  void push_front(const std::filesystem::path& path) {
    std::vector<std::string> names;
    for (const auto& part : path.relative_path()) {
      if (!part.empty() && part != ".") names.push_back(part.string());
    }
    rest_.insert(rest_.end(), names.rbegin(), names.rend());
  }

  [[nodiscard]] std::filesystem::path folder_path() const {
    std::filesystem::path path = "/";
    for (std::size_t i = 1; i < folders_.size(); ++i) path /= folders_[i].name;
    return path;
  }
  /// The entry that is being followed.
  [[nodiscard]] std::filesystem::path where() const { return folder_path() / name_; }

  /// Follows the next name of the path.
  void step() {
    if (rest_.empty()) throw ConfigurationError("it is no regular file");
    name_ = rest_.back();
    rest_.pop_back();
    if (name_ == "..") {
      if (folders_.size() > 1) folders_.pop_back();
      return;
    }
    Descriptor entry(::openat(folders_.back().descriptor.number(), name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (entry.number() < 0) throw missing(errno);
    const Status status = status_of(entry);
    judge_folder(folders_.back().status, status);
    if (S_ISLNK(status.st_mode)) {
      follow_link(entry, status);
    } else if (S_ISDIR(status.st_mode)) {
      folders_.push_back({std::move(entry), name_, status});
    } else {
      open_file(status);
    }
  }

  [[nodiscard]] ConfigurationError missing(int error) const {
    const std::string path = where().string();
    if (last_link_.empty()) return unreadable(error);
    return ConfigurationError("it cannot be read: " + last_link_ + ", and " + path + ": " + std::strerror(error));
  }

  void follow_link(const Descriptor& link, const Status& status) {
    const std::string path = where().string();
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.number(), "", target.data(), target.size() - 1);
    if (size <= 0) throw unreadable(size < 0 ? errno : ENOENT);
    last_link_ = path + " is a link to " + target.data();
    judge_owner(status, "the link " + path);
    if (++links_ > kMostLinks) throw unreadable(ELOOP);
    const std::filesystem::path destination(target.data());
    if (destination.is_absolute()) enter_root();
    push_front(destination);
  }

  void open_file(const Status& found) {
    if (!rest_.empty()) throw missing(ENOTDIR);
    if (!S_ISREG(found.st_mode)) throw ConfigurationError("it is no regular file");
    judged_.file = Descriptor(
        ::openat(folders_.back().descriptor.number(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (judged_.file.number() < 0) throw unreadable(errno);
    const Status status = status_of(judged_.file);
    if (!S_ISREG(status.st_mode)) throw ConfigurationError("it is no regular file");
    judge_owner(status, "it");
    judge_mode(status, "it", where());
  }

  void judge_folder(const Status& folder, const Status& entry) {
    const std::filesystem::path path = folder_path();
    const std::string what = "the folder " + path.string();
    judge_owner(folder, what);
    const bool is_sticky = (folder.st_mode & S_ISVTX) != 0;
    if (is_sticky && is_root_or_user(entry.st_uid)) return;
    judge_mode(folder, what, path);
  }

  void judge_owner(const Status& status, const std::string& what) {
    if (is_root_or_user(status.st_uid)) return;
    const std::string user = std::to_string(::geteuid());
    distrust(what + " belongs to user " + std::to_string(status.st_uid) + "; accepted: root" +
             (user == "0" ? "" : " or user " + user));
  }

  void judge_mode(const Status& status, const std::string& what, const std::filesystem::path& path) {
    const bool others = (status.st_mode & S_IWOTH) != 0;
    const bool group = (status.st_mode & S_IWGRP) != 0;
    if (!others && !group) return;
    if (!others && is_private_group(status.st_uid, status.st_gid)) {
      warn(what + " can be written by its group, which has no other member now; safer: chmod g-w " + path.string());
      return;
    }
    distrust(what + " can be written by " + (others ? "anyone" : "its group " + std::to_string(status.st_gid)) +
             "; accepted: by its owner only (chmod go-w " + path.string() + ")");
  }

  void distrust(const std::string& reason) {
    if (judged_.distrust.empty()) judged_.distrust = reason;
  }
  void warn(const std::string& warning) {
    auto& warnings = judged_.warnings;
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
  }

  JudgedPath judged_;
  std::vector<Folder> folders_;
  /// The names still to follow, last first.
  std::vector<std::string> rest_;
  /// The name being followed, in the last of the folders.
  std::string name_;
  std::string last_link_;
  int links_ = 0;
};

}  // namespace

JudgedPath open_judged(const std::filesystem::path& path) { return Walk().follow(std::filesystem::absolute(path)); }

}  // namespace strata
