#include "protocol.hpp"

#include "bytes.hpp"
#include "hashing.hpp"
#include "printable.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Changes with every version of the protocol.
constexpr const char* kProtocol = "Strata rendezvous 3";

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

}  // namespace strata::rendezvous
