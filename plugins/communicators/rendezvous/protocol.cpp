#include "protocol.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "bytes.hpp"
#include "sha256.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kHeaderBytes = 5;
/// Changes with every version of the protocol.
constexpr const char* kProtocol = "Strata rendezvous 1";

std::string join_text(const Join& join) {
  ByteWriter writer;
  writer.text(join.challenge);
  writer.number(static_cast<std::uint32_t>(join.rank));
  writer.number(static_cast<std::uint32_t>(join.rank_count));
  return writer.take();
}

std::string proof(const char* side, const Join& join, const Greeting& greeting, const std::string& secret) {
  return hmac_sha256(secret, side + greeting.challenge + join_text(join));
}

void require(const Frame& frame, FrameKind kind, const char* what) {
  if (frame.kind != kind) throw RuntimeError(std::string("rendezvous: the peer sent no ") + what);
}

}  // namespace

std::string encode(const Frame& frame) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(frame.contents.size()));
  return writer.take() + static_cast<char>(frame.kind) + frame.contents;
}

std::optional<Frame> decode(std::string& bytes, std::uint32_t longest) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const std::uint32_t length = ByteReader(bytes).number();
  const auto kind = static_cast<std::uint8_t>(bytes[kHeaderBytes - 1]);
  if (length > longest || kind < static_cast<std::uint8_t>(FrameKind::greeting) ||
      kind > static_cast<std::uint8_t>(FrameKind::end)) {
    throw RuntimeError("rendezvous: the peer does not speak this protocol");
  }
  if (bytes.size() < kHeaderBytes + length) return std::nullopt;
  Frame frame{static_cast<FrameKind>(kind), bytes.substr(kHeaderBytes, length)};
  bytes.erase(0, kHeaderBytes + length);
  return frame;
}

std::string random_text() {
  std::string text(32, '\0');
  if (::getrandom(text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw RuntimeError(std::string("rendezvous: no random numbers: ") + std::strerror(errno));
  }
  return text;
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
    throw RuntimeError("rendezvous: rank 0 speaks '" + protocol + "', this rank '" + kProtocol +
                       "': all ranks need the same version");
  }
  return {reader.text()};
}

Frame join_frame(const Join& join, const Greeting& greeting, const std::string& secret) {
  ByteWriter writer;
  writer.text(join.challenge);
  writer.number(static_cast<std::uint32_t>(join.rank));
  writer.number(static_cast<std::uint32_t>(join.rank_count));
  writer.text(proof("join", join, greeting, secret));
  return {FrameKind::join, writer.take()};
}

std::optional<Join> read_join(const Frame& frame, const Greeting& greeting, const std::string& secret) {
  require(frame, FrameKind::join, "request to join");
  ByteReader reader(frame.contents);
  Join join;
  join.challenge = reader.text();
  join.rank = static_cast<int>(reader.number());
  join.rank_count = static_cast<int>(reader.number());
  if (!equal_in_constant_time(reader.text(), proof("join", join, greeting, secret))) return std::nullopt;
  return join;
}

Frame welcome_frame(const Join& join, const Greeting& greeting, const std::string& secret) {
  return {FrameKind::welcome, proof("welcome", join, greeting, secret)};
}

bool is_true_welcome(const Frame& frame, const Join& join, const Greeting& greeting, const std::string& secret) {
  return frame.kind == FrameKind::welcome &&
         equal_in_constant_time(frame.contents, proof("welcome", join, greeting, secret));
}

}  // namespace strata::rendezvous
