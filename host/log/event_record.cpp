#include "log/event_record.hpp"

#include <bit>
#include <boost/crc.hpp>
#include <cstddef>

/// \file
/// The messages are encoded here, not by protobuf's library: they are three messages with eight fields of four types,
/// and the library would add a code generator to the build and a versioned shared library to the packages. The field
/// numbers are those of event.proto and summary.proto of TensorFlow.

namespace strata::host {
namespace {

/// The encodings of a field's value that protobuf distinguishes.
enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class Number>
void append_little_endian(std::string& text, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) text += static_cast<char>((number >> (8 * i)) & 0xffU);
}

/// A message of protobuf, encoded field by field.
class Message {
 public:
  Message& number(std::uint32_t field, std::uint64_t value) {
    key(field, WireType::varint);
    varint(value);
    return *this;
  }
  Message& f64(std::uint32_t field, double value) {
    key(field, WireType::fixed64);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& f32(std::uint32_t field, double value) {
    key(field, WireType::fixed32);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    return *this;
  }
  /// A string or a message.
  Message& bytes(std::uint32_t field, std::string_view value) {
    key(field, WireType::bytes);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return bytes_; }

 private:
  void key(std::uint32_t field, WireType type) { varint((field << 3U) | static_cast<std::uint32_t>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log =
/// 7; }
Message event(double seconds, std::uint64_t step) { return Message().f64(1, seconds).number(2, step); }

/// TFRecord stores checksums in this form, because a checksum over data with its own checksum is useless.
std::uint32_t masked(std::uint32_t checksum) { return std::rotr(checksum, 15) + 0xa282ead8U; }

/// TFRecord { uint64 length; uint32 masked checksum of it; byte data[length]; uint32 masked checksum of the data; }
std::string framed(const Message& message) {
  std::string record;
  append_little_endian(record, std::uint64_t{message.text().size()});
  append_little_endian(record, masked(crc32c(record)));
  record += message.text();
  append_little_endian(record, masked(crc32c(message.text())));
  return record;
}

}  // namespace

std::string version_record(double seconds) {
  // From version 2 on, readers understand start_record().
  return framed(event(seconds, 0).bytes(3, "brain.Event:2"));
}

std::string start_record(double seconds, std::uint64_t step) {
  // SessionLog { SessionStatus status = 1; } with START = 1.
  return framed(event(seconds, step).bytes(7, Message().number(1, 1).text()));
}

std::string scalar_record(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars) {
  // Summary { repeated Value value = 1; } with Value { string tag = 1; float simple_value = 2; }.
  Message summary;
  for (const Scalar& each : scalars) summary.bytes(1, Message().bytes(1, each.tag).f32(2, each.value).text());
  return framed(event(seconds, step).bytes(5, summary.text()));
}

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> checksum;
  checksum.process_bytes(bytes.data(), bytes.size());
  return checksum.checksum();
}

}  // namespace strata::host
