#pragma once

#include <cstdint>
#include <string>

namespace strata::gloo {

/// The address of this machine from which it reaches `host`, as text. \throws ConfigurationError if it does not.
[[nodiscard]] std::string own_address_towards(const std::string& host, std::uint16_t port);

}  // namespace strata::gloo
