#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace strata::host {

/// The host name of this machine. Empty if the system does not say.
[[nodiscard]] inline std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace strata::host
