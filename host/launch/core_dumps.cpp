#include "launch/core_dumps.hpp"

#include <sys/resource.h>

namespace strata::host {

void forbid_core_dumps() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  // The system pipes dumps to a program, such as systemd-coredump, in spite of a limit of 0, but not of 1.
  limit.rlim_cur = limit.rlim_max < 1 ? limit.rlim_max : 1;
  static_cast<void>(::setrlimit(RLIMIT_CORE, &limit));
}

}  // namespace strata::host
