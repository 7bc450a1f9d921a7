#pragma once

#include <sys/types.h>

namespace strata {

/// True if `group` is the private group of `user`, as many systems make one for every user: it is the user's primary
/// group, has the user's name, and has no other member. If the answer cannot be found, it is false.
bool is_private_group(uid_t user, gid_t group);

}  // namespace strata
