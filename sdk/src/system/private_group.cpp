#include "private_group.hpp"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace strata
