#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::rendezvous {

/// SHA-256 (FIPS 180-4) of `message`, as 32 bytes.
[[nodiscard]] std::string sha256(std::string_view message);

/// HMAC-SHA-256 (RFC 2104), as 32 bytes. It proves knowledge of `key` without revealing it.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view message);

/// Compares two texts. The time does not depend on where they differ, so it reveals nothing.
[[nodiscard]] bool equal_in_constant_time(std::string_view left, std::string_view right);

/// "00ff": two digits a byte.
[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace strata::rendezvous
