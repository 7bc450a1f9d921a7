#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::host {

// Messages are encoded here, not by protobuf's library: those that Strata writes have a few fields of a few types, and
// the library would add a code generator to the build and a versioned shared library to the packages.

/// The encodings of a field's value that protobuf distinguishes.
enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class Number>
void append_little_endian(std::string& text, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) text += static_cast<char>((number >> (8 * i)) & 0xffU);
}

/// A number with seven bits in each byte, the lowest ones first.
inline void append_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) text += static_cast<char>(value | 0x80U);
  text += static_cast<char>(value);
}

/// A message of protobuf, encoded field by field.
class ProtobufMessage {
 public:
  ProtobufMessage& number(std::uint32_t field, std::uint64_t value) {
    key(field, WireType::varint);
    append_varint(bytes_, value);
    return *this;
  }
  ProtobufMessage& f64(std::uint32_t field, double value) {
    key(field, WireType::fixed64);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufMessage& f32(std::uint32_t field, double value) {
    key(field, WireType::fixed32);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    return *this;
  }
  /// A string or a message.
  ProtobufMessage& bytes(std::uint32_t field, std::string_view value) {
    key(field, WireType::bytes);
    append_varint(bytes_, value.size());
    bytes_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return bytes_; }

 private:
  void key(std::uint32_t field, WireType type) {
    append_varint(bytes_, (field << 3U) | static_cast<std::uint32_t>(type));
  }

  std::string bytes_;
};

}  // namespace strata::host
