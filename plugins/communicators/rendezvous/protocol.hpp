#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "store.hpp"

namespace strata::rendezvous {

/// \file
/// The protocol between rank 0 and the other processes. Both sides know a secret and never send it.
///
/// A connection begins with three frames. A frame is a length of 4 bytes, a kind of 1 byte, and contents:
///
///     rank 0 -> greeting(version, a random challenge)
///     rank r -> join(another challenge, r, number of ranks, proof)
///     rank 0 -> welcome, or refusal(why), both authenticated; rejection(why), not authenticated, if the proof is wrong
///
/// Both sides derive from the secret and from all that the first two frames say:
///
///     proof          that rank r knows the secret
///     to_first       authenticates the frames of rank r
///     from_first     authenticates the frames of rank 0
///
/// From then on every frame is authenticated, as FrameWriter does. Each connection has new challenges, so its
/// keys are new as well, and frames of another connection or run are refused. A welcome that rank r can verify proves
/// that rank 0 knows the secret.

enum class FrameKind : std::uint8_t {
  greeting = 1,
  join,
  rejection,  ///< says why, to a peer that has not proved that it knows the secret
  welcome,
  refusal,  ///< says why, to a rank of the run
  put,
  take,
  value,
  failure,
  beat,    ///< this side is alive
  notice,  ///< rank 0 says for whom the run waits
  end      ///< this side ends normally
};

struct Frame {
  FrameKind kind = FrameKind::end;
  std::string contents;
};

inline constexpr std::size_t kHeaderBytes = 5;
inline constexpr std::size_t kChallengeBytes = 32;
/// Largest contents of a frame of a peer before and after it has proved that it belongs to the run.
inline constexpr std::uint32_t kLongestFrameOfStranger = 512;
inline constexpr std::uint32_t kLongestFrame = 256U << 20U;

/// Limit for sending the last frames before a side ends.
inline constexpr std::chrono::seconds kLastWords{2};

/// Length and kind of a frame, as they are sent.
[[nodiscard]] std::string header_of(const Frame& frame);
/// Reads a header at the beginning of `bytes`, which has at least kHeaderBytes. \return the kind and the length of the
/// contents. \throws RuntimeError if there is no such kind, or if the frame is longer than `longest`.
[[nodiscard]] std::pair<FrameKind, std::uint32_t> read_header(const std::string& bytes, std::uint32_t longest);

/// A frame that is not authenticated.
[[nodiscard]] std::string encode(const Frame& frame);
/// Removes the first complete frame from `bytes` and returns it. \throws as read_header().
[[nodiscard]] std::optional<Frame> decode(std::string& bytes, std::uint32_t longest);

struct Greeting {
  std::string challenge;
};
struct Join {
  std::string challenge;
  int rank = 0;
  int rank_count = 0;
};

/// The keys of one connection.
struct SessionKeys {
  std::string to_first;
  std::string from_first;
};

[[nodiscard]] Frame greeting_frame(const Greeting& greeting);
/// \throws RuntimeError if `frame` is not the greeting of a rank 0 with this protocol version.
[[nodiscard]] Greeting read_greeting(const Frame& frame);

[[nodiscard]] Frame join_frame(const Join& join, const Greeting& greeting, const std::string& secret);
/// Empty if the sender does not know the secret. \throws RuntimeError if `frame` is not a request to join.
[[nodiscard]] std::optional<Join> read_join(const Frame& frame, const Greeting& greeting, const std::string& secret);

[[nodiscard]] SessionKeys session_keys(const Join& join, const Greeting& greeting, const std::string& secret);

/// What a frame of kind put, take, value or failure says about the store. A kind leaves empty what it does not need.
struct StoreMessage {
  std::string key = {};
  /// The readers of a put, or the rank of a failure.
  int number = 0;
  /// The value, or the reason of a failure.
  std::string text = {};
};

/// \throws RuntimeError if key and value do not fit in a frame.
void require_storable(const std::string& key, const std::string& value);

[[nodiscard]] Frame store_frame(FrameKind kind, const StoreMessage& message);
/// A very long reason is cut.
[[nodiscard]] Frame failure_frame(const Failure& failure);
/// \throws RuntimeError if the contents are not what store_frame() makes.
[[nodiscard]] StoreMessage read_store_frame(const Frame& frame);

/// \file
/// Frames that only the two ends of a connection can make. Each direction has its key and counts its frames:
///
///     header  5 bytes   length and kind
///     tag    16 bytes   of the frame's number and the header, under the key
///     contents
///     tag    16 bytes   of the frame's number, the header and the contents; only if there are contents
///
/// A frame that was altered, repeated, left out, or moved has a wrong tag. The header has a tag of its own, because the
/// receiver waits for as many bytes as the header says.

/// Writes the frames of one direction.
class FrameWriter {
 public:
  explicit FrameWriter(std::string key) : key_(std::move(key)) {}
  [[nodiscard]] std::string write(const Frame& frame);

 private:
  std::string key_;
  std::uint64_t count_ = 0;
};

/// Reads the frames of one direction.
class FrameReader {
 public:
  explicit FrameReader(std::string key) : key_(std::move(key)) {}
  /// Removes the first complete frame from `bytes` and returns it. \throws RuntimeError if it is not the next frame
  /// that the holder of the key has written.
  [[nodiscard]] std::optional<Frame> read(std::string& bytes);

 private:
  std::string key_;
  std::uint64_t count_ = 0;
  /// The header at the beginning of the bytes has been checked.
  bool header_is_true_ = false;
};

}  // namespace strata::rendezvous
