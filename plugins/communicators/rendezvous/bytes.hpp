#pragma once

#include <cstdint>
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

}  // namespace strata::rendezvous
