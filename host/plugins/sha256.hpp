#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace strata::host {

/// The SHA-256 of `bytes` in hexadecimal digits, as sha256sum prints it.
[[nodiscard]] std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace strata::host
