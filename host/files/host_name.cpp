#include "files/host_name.hpp"

#include <unistd.h>

#include <array>

namespace strata::host {

std::string own_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace strata::host
