#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace strata::rendezvous {

/// \file
/// The protocol between rank 0 and the other processes. A frame has a length, a kind and contents. At the beginning of
/// a connection both sides prove that they know the secret, without sending it:
///
///     rank 0 -> greeting(a random text)
///     rank r -> join(another, r, number of ranks, proof over all of it)
///     rank 0 -> welcome(proof over both texts), or refusal(why)

enum class FrameKind : std::uint8_t {
  greeting = 1,
  join,
  welcome,
  refusal,
  put,
  take,
  value,
  failure,
  end  ///< this side ends normally
};

struct Frame {
  FrameKind kind = FrameKind::end;
  std::string contents;
};

/// Largest frame of a peer before and after it has proved that it belongs to the run.
inline constexpr std::uint32_t kLongestFrameOfStranger = 4096;
inline constexpr std::uint32_t kLongestFrame = 256U << 20U;

/// Limit for sending the last frames before a side ends.
inline constexpr std::chrono::seconds kLastWords{2};

[[nodiscard]] std::string encode(const Frame& frame);
/// Removes the first complete frame from `bytes` and returns it. \throws RuntimeError if `bytes` does not begin with a
/// frame of at most `longest` bytes.
[[nodiscard]] std::optional<Frame> decode(std::string& bytes, std::uint32_t longest);

/// A random text of 32 bytes.
[[nodiscard]] std::string random_text();

struct Greeting {
  std::string challenge;
};
struct Join {
  std::string challenge;
  int rank = 0;
  int rank_count = 0;
};

[[nodiscard]] Frame greeting_frame(const Greeting& greeting);
/// \throws RuntimeError if `frame` is not the greeting of a rank 0 with this protocol version.
[[nodiscard]] Greeting read_greeting(const Frame& frame);

[[nodiscard]] Frame join_frame(const Join& join, const Greeting& greeting, const std::string& secret);
/// Empty if the sender does not know the secret. \throws RuntimeError if `frame` is not a request to join.
[[nodiscard]] std::optional<Join> read_join(const Frame& frame, const Greeting& greeting, const std::string& secret);

[[nodiscard]] Frame welcome_frame(const Join& join, const Greeting& greeting, const std::string& secret);
/// True if the sender knows the secret.
[[nodiscard]] bool is_true_welcome(const Frame& frame, const Join& join, const Greeting& greeting,
                                   const std::string& secret);

}  // namespace strata::rendezvous
