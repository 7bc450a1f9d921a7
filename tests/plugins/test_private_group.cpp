#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "../../sdk/src/system/judged_path.hpp"

namespace {

struct User {
  std::string name;
  uid_t number;
  gid_t group;
};

/// The system's users and one group, as the functions below tell them.
struct System {
  std::vector<User> users;
  std::string group_name;
  std::vector<std::string> members;
  /// Directories that do not list their users answer only questions about one.
  bool lists_users = true;
};

constexpr gid_t kGroup = 1000;

System the_system;         // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): C functions read it
std::size_t position = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

int tell(User& user, passwd* entry, passwd** result) {
  *entry = {};
  entry->pw_name = user.name.data();
  entry->pw_uid = user.number;
  entry->pw_gid = user.group;
  *result = entry;
  return 0;
}

}  // namespace

// They take the place of the C library's functions of these names.
extern "C" {

int getpwuid_r(uid_t number, passwd* entry, char* /*buffer*/, std::size_t size, passwd** result) {
  *result = nullptr;
  if (size < 10000) return ERANGE;
  for (User& user : the_system.users) {
    if (user.number == number) return tell(user, entry, result);
  }
  return 0;
}

int getgrgid_r(gid_t number, group* entry, char* buffer, std::size_t size, group** result) {
  *result = nullptr;
  if (number != kGroup) return 0;
  if (size < 10000) return ERANGE;
  *entry = {};
  entry->gr_name = the_system.group_name.data();
  entry->gr_mem = reinterpret_cast<char**>(buffer);
  std::size_t count = 0;
  for (std::string& member : the_system.members) entry->gr_mem[count++] = member.data();
  entry->gr_mem[count] = nullptr;
  *result = entry;
  return 0;
}

void setpwent() { position = 0; }
void endpwent() {}
int getpwent_r(passwd* entry, char* /*buffer*/, std::size_t /*size*/, passwd** result) {
  *result = nullptr;
  if (!the_system.lists_users || position == the_system.users.size()) return ENOENT;
  return tell(the_system.users[position++], entry, result);
}
}

namespace strata {
namespace {

TEST(PrivateGroup, HasTheUsersNameAndNoOtherMember) {
  const User anna{"anna", 1000, kGroup};
  const User root{"root", 0, 0};
  struct Row {
    const char* name;
    System system;
    bool is_private;
  };
  const std::vector<Row> rows = {
      {"a group as useradd makes it", {{root, anna}, "anna", {}}, true},
      {"the user is listed as its member", {{root, anna}, "anna", {"anna"}}, true},
      {"users are not listed", {{root, anna}, "anna", {}, false}, true},
      {"another member", {{root, anna}, "anna", {"anna", "bert"}}, false},
      {"another user's primary group", {{root, anna, {"bert", 1001, kGroup}}, "anna", {}}, false},
      {"a group for all users, whose directory does not list them", {{root, anna}, "users", {}, false}, false},
      {"the user has another primary group", {{root, {"anna", 1000, 100}}, "anna", {}}, false},
      {"the user is unknown", {{root}, "anna", {}}, false},
  };
  for (const Row& row : rows) {
    the_system = row.system;
    EXPECT_EQ(is_private_group(1000, kGroup), row.is_private) << row.name;
  }
}

}  // namespace
}  // namespace strata
