#include "protocol.hpp"

#include <limits>
#include <string_view>

#include "bytes.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Changes with every version of the protocol.
constexpr const char* kProtocol = "Strata rendezvous 4";

void write_request(ByteWriter& writer, const Join& join) {
  writer.text(join.challenge);
  writer.number(static_cast<std::uint32_t>(join.rank));
  writer.number(static_cast<std::uint32_t>(join.rank_count));
}

/// A key for one `purpose` on one connection.
std::string derive(const char* purpose, const Join& join, const Greeting& greeting, const std::string& secret) {
  ByteWriter writer;
  writer.text(kProtocol);
  writer.text(purpose);
  writer.text(greeting.challenge);
  write_request(writer, join);
  // BLAKE2b takes keys of up to 64 bytes, so hash the secret first.
  return keyed_digest(digest(secret), {writer.take()});
}

void require(const Frame& frame, FrameKind kind, const char* what) {
  if (frame.kind != kind) throw RuntimeError(std::string("rendezvous: the peer sent no ") + what);
}

std::string read_challenge(ByteReader& reader) {
  std::string challenge = reader.text();
  if (challenge.size() != kChallengeBytes) {
    throw RuntimeError("rendezvous: found a challenge of " + std::to_string(challenge.size()) +
                       " bytes; accepted: " + std::to_string(kChallengeBytes));
  }
  return challenge;
}

constexpr std::size_t kLongestReason = std::size_t{64} << 10U;
/// Bytes of a frame's contents beside key and value.
constexpr std::size_t kNumbers = 12;

std::string number_of_frame(std::uint64_t count) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(count >> 32U));
  writer.number(static_cast<std::uint32_t>(count));
  return writer.take();
}

std::string tag_of(const std::string& key, std::uint64_t count, const char* part, std::string_view bytes) {
  return keyed_digest(key, {number_of_frame(count), part, bytes}, kTagBytes);
}

void require_equal(std::string_view found, const std::string& expected) {
  if (equal_in_constant_time(found, expected)) return;
  throw RuntimeError(
      "rendezvous: a frame is not the next one that the peer has sent: something between the two has altered, repeated "
      "or removed bytes");
}

}  // namespace

std::string header_of(const Frame& frame) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(frame.contents.size()));
  return writer.take() + static_cast<char>(frame.kind);
}

std::pair<FrameKind, std::uint32_t> read_header(const std::string& bytes, std::uint32_t longest) {
  const std::uint32_t length = ByteReader(bytes).number();
  const auto kind = static_cast<std::uint8_t>(bytes.at(kHeaderBytes - 1));
  if (kind < static_cast<std::uint8_t>(FrameKind::greeting) || kind > static_cast<std::uint8_t>(FrameKind::end)) {
    throw RuntimeError("rendezvous: the peer does not speak this protocol");
  }
  if (length > longest) {
    throw RuntimeError("rendezvous: found a frame of " + std::to_string(length) + " bytes; accepted: at most " +
                       std::to_string(longest));
  }
  return {static_cast<FrameKind>(kind), length};
}

std::string encode(const Frame& frame) { return header_of(frame) + frame.contents; }

std::optional<Frame> decode(std::string& bytes, std::uint32_t longest) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const auto [kind, length] = read_header(bytes, longest);
  if (bytes.size() < kHeaderBytes + length) return std::nullopt;
  Frame frame{kind, bytes.substr(kHeaderBytes, length)};
  bytes.erase(0, kHeaderBytes + length);
  return frame;
}

Frame greeting_frame(const Greeting& greeting) {
  ByteWriter writer;
  writer.text(kProtocol);
  writer.text(greeting.challenge);
  return {FrameKind::greeting, writer.take()};
}

Greeting read_greeting(const Frame& frame) {
  require(frame, FrameKind::greeting, "greeting");
  ByteReader reader(frame.contents);
  if (const std::string protocol = reader.text(); protocol != kProtocol) {
    throw RuntimeError("rendezvous: rank 0 speaks '" + printable(protocol) + "', this rank '" + kProtocol +
                       "': all ranks need the same version");
  }
  Greeting greeting{read_challenge(reader)};
  reader.end();
  return greeting;
}

Frame join_frame(const Join& join, const Greeting& greeting, const std::string& secret) {
  ByteWriter writer;
  write_request(writer, join);
  writer.text(derive("join", join, greeting, secret));
  return {FrameKind::join, writer.take()};
}

std::optional<Join> read_join(const Frame& frame, const Greeting& greeting, const std::string& secret) {
  require(frame, FrameKind::join, "request to join");
  ByteReader reader(frame.contents);
  Join join;
  join.challenge = read_challenge(reader);
  join.rank = static_cast<int>(reader.number());
  join.rank_count = static_cast<int>(reader.number());
  const std::string proof = reader.text();
  reader.end();
  if (!equal_in_constant_time(proof, derive("join", join, greeting, secret))) return std::nullopt;
  return join;
}

SessionKeys session_keys(const Join& join, const Greeting& greeting, const std::string& secret) {
  return {derive("to rank 0", join, greeting, secret), derive("from rank 0", join, greeting, secret)};
}

void require_storable(const std::string& key, const std::string& value) {
  if (key.size() + value.size() + kNumbers <= kLongestFrame) return;
  throw RuntimeError("rendezvous: found a value of " + std::to_string(value.size()) + " bytes; accepted: at most " +
                     std::to_string(kLongestFrame - kNumbers - key.size()));
}

Frame store_frame(FrameKind kind, const StoreMessage& message) {
  ByteWriter writer;
  writer.text(message.key);
  writer.number(static_cast<std::uint32_t>(message.number));
  writer.text(message.text);
  return {kind, writer.take()};
}

Frame failure_frame(const Failure& failure) {
  return store_frame(FrameKind::failure, {.number = failure.rank, .text = failure.reason.substr(0, kLongestReason)});
}

StoreMessage read_store_frame(const Frame& frame) {
  ByteReader reader(frame.contents);
  StoreMessage message;
  message.key = reader.text();
  const std::uint32_t number = reader.number();
  if (number > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) {
    throw RuntimeError("rendezvous: found " + std::to_string(number) + " as the number of readers or a rank");
  }
  message.number = static_cast<int>(number);
  message.text = reader.text();
  reader.end();
  return message;
}

std::string FrameWriter::write(const Frame& frame) {
  const std::uint64_t count = count_++;
  std::string bytes = header_of(frame);
  const std::string tag_of_header = tag_of(key_, count, "header", bytes);
  if (frame.contents.empty()) return bytes + tag_of_header;
  const std::string tag = keyed_digest(key_, {number_of_frame(count), "contents", bytes, frame.contents}, kTagBytes);
  return bytes + tag_of_header + frame.contents + tag;
}

std::optional<Frame> FrameReader::read(std::string& bytes) {
  constexpr std::size_t kBegin = kHeaderBytes + kTagBytes;
  if (bytes.size() < kBegin) return std::nullopt;
  const std::string_view all = bytes;
  const std::string_view header = all.substr(0, kHeaderBytes);
  if (!header_is_true_) require_equal(all.substr(kHeaderBytes, kTagBytes), tag_of(key_, count_, "header", header));
  header_is_true_ = true;
  const auto [kind, length] = read_header(bytes, kLongestFrame);
  const std::size_t size = length == 0 ? kBegin : kBegin + length + kTagBytes;
  if (bytes.size() < size) return std::nullopt;
  Frame frame{kind, bytes.substr(kBegin, length)};
  if (length > 0) {
    require_equal(all.substr(kBegin + length, kTagBytes),
                  keyed_digest(key_, {number_of_frame(count_), "contents", header, frame.contents}, kTagBytes));
  }
  bytes.erase(0, size);
  header_is_true_ = false;
  ++count_;
  return frame;
}

}  // namespace strata::rendezvous
