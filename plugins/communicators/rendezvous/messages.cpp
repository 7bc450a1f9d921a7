#include "messages.hpp"

#include <limits>

#include "bytes.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kLongestReason = std::size_t{64} << 10U;
/// Bytes of a frame's contents beside key and value.
constexpr std::size_t kNumbers = 12;

int read_count(ByteReader& reader, const char* what) {
  const std::uint32_t number = reader.number();
  if (number <= static_cast<std::uint32_t>(std::numeric_limits<int>::max())) return static_cast<int>(number);
  throw RuntimeError("rendezvous: found " + std::to_string(number) + " as the number of " + what);
}

}  // namespace

void require_storable(const std::string& key, const std::string& value) {
  if (key.size() + value.size() + kNumbers <= kLongestFrame) return;
  throw RuntimeError("rendezvous: found a value of " + std::to_string(value.size()) + " bytes; accepted: at most " +
                     std::to_string(kLongestFrame - kNumbers - key.size()));
}

Frame put_frame(const Put& put) {
  ByteWriter writer;
  writer.text(put.key);
  writer.number(static_cast<std::uint32_t>(put.readers));
  writer.text(put.value);
  return {FrameKind::put, writer.take()};
}

Put read_put(const Frame& frame) {
  ByteReader reader(frame.contents);
  Put put;
  put.key = reader.text();
  put.readers = read_count(reader, "readers");
  put.value = reader.text();
  reader.end();
  return put;
}

Frame take_frame(const std::string& key) {
  ByteWriter writer;
  writer.text(key);
  return {FrameKind::take, writer.take()};
}

std::string read_take(const Frame& frame) {
  ByteReader reader(frame.contents);
  std::string key = reader.text();
  reader.end();
  return key;
}

Frame value_frame(const Value& value) {
  ByteWriter writer;
  writer.text(value.key);
  writer.text(value.value);
  return {FrameKind::value, writer.take()};
}

Value read_value(const Frame& frame) {
  ByteReader reader(frame.contents);
  Value value;
  value.key = reader.text();
  value.value = reader.text();
  reader.end();
  return value;
}

Frame failure_frame(const Failure& failure) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(failure.rank));
  writer.text(std::string_view(failure.reason).substr(0, kLongestReason));
  return {FrameKind::failure, writer.take()};
}

Failure read_failure(const Frame& frame) {
  ByteReader reader(frame.contents);
  Failure failure;
  failure.rank = read_count(reader, "a rank");
  failure.reason = reader.text();
  reader.end();
  return failure;
}

}  // namespace strata::rendezvous
