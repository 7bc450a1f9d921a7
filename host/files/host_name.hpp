#pragma once

#include <string>

namespace strata::host {

/// The host name of this machine. Empty if the system does not say.
[[nodiscard]] std::string own_host_name();

}  // namespace strata::host
