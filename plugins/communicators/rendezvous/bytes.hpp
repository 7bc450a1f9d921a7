#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace strata::rendezvous {

/// Serialises numbers (big-endian) and texts (with their length).
class ByteWriter {
 public:
  void number(std::uint32_t value);
  void text(std::string_view value);
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads the bytes of a ByteWriter. \throws RuntimeError if they end too early.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] std::uint32_t number();
  [[nodiscard]] std::string text();
  /// \throws RuntimeError if bytes are left.
  void end() const;

 private:
  [[nodiscard]] std::string_view cut(std::size_t bytes);

  std::string_view rest_;
};

/// A text of a peer that may be anybody, in a form that a terminal prints as it is. Bytes that are not printable ASCII
/// become "\x1b", and what follows the first 160 bytes is left out. Example: "\x1b[2J" becomes "\\x1b[2J".
[[nodiscard]] std::string printable(std::string_view text);

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
