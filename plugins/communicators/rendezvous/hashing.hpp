#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace strata::rendezvous {

inline constexpr std::size_t kDigestBytes = 32;
/// Length of the code that authenticates a message.
inline constexpr std::size_t kTagBytes = 16;

/// BLAKE2b (RFC 7693) of `message`, as 32 bytes.
[[nodiscard]] std::string digest(std::string_view message);

/// BLAKE2b of the joined `parts` under `key`, as `bytes` bytes. It proves knowledge of `key` without revealing it.
[[nodiscard]] std::string keyed_digest(std::string_view key, std::initializer_list<std::string_view> parts,
                                       std::size_t bytes = kDigestBytes);

/// Compares two texts. The time does not depend on where they differ, so it reveals nothing.
[[nodiscard]] bool equal_in_constant_time(std::string_view left, std::string_view right);

/// Random bytes that nobody can predict.
[[nodiscard]] std::string random_text(std::size_t bytes);

/// "00ff": two digits a byte.
[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace strata::rendezvous
