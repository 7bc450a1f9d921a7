#include "bytes.hpp"

#include "strata/error.hpp"

namespace strata::rendezvous {

void ByteWriter::number(std::uint32_t value) {
  for (unsigned shift = 32; shift > 0; shift -= 8) bytes_ += static_cast<char>(value >> (shift - 8));
}

void ByteWriter::text(std::string_view value) {
  number(static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
}

std::uint32_t ByteReader::number() {
  std::uint32_t value = 0;
  for (const char byte : cut(4)) value = value << 8U | static_cast<std::uint8_t>(byte);
  return value;
}

std::string ByteReader::text() {
  const std::uint32_t bytes = number();
  return std::string(cut(bytes));
}

void ByteReader::end() const {
  if (rest_.empty()) return;
  throw RuntimeError("rendezvous: a message has " + std::to_string(rest_.size()) + " bytes too many");
}

std::string_view ByteReader::cut(std::size_t bytes) {
  if (bytes > rest_.size()) {
    throw RuntimeError("rendezvous: a message ends after " + std::to_string(rest_.size()) + " of " +
                       std::to_string(bytes) + " bytes");
  }
  const std::string_view head = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return head;
}

}  // namespace strata::rendezvous
