#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace strata::rendezvous {

/// \file
/// What the processes say to rank 0 and it to them: frames of a length, a kind and contents. A connection begins with
/// a proof by both sides that they know the secret, without sending it:
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
  end  ///< this side leaves as planned
};

struct Frame {
  FrameKind kind = FrameKind::end;
  std::string contents;
};

/// Longest frame of a peer that has not proven that it belongs to the run, and of one that has.
inline constexpr std::uint32_t kLongestFrameOfStranger = 4096;
inline constexpr std::uint32_t kLongestFrame = 256U << 20U;

/// How long a side that leaves waits for its last frames to go.
inline constexpr std::chrono::seconds kLastWords{2};

[[nodiscard]] std::string encode(const Frame& frame);
/// Cuts the first whole frame off `bytes`. \throws RuntimeError if what begins there is no frame of up to `longest`.
[[nodiscard]] std::optional<Frame> decode(std::string& bytes, std::uint32_t longest);

/// A text that nobody can guess, of 32 bytes.
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
/// \throws RuntimeError if this is no greeting of a rank 0 of this version.
[[nodiscard]] Greeting read_greeting(const Frame& frame);

[[nodiscard]] Frame join_frame(const Join& join, const Greeting& greeting, const std::string& secret);
/// Empty if the sender does not know the secret. \throws RuntimeError if this is no request to join.
[[nodiscard]] std::optional<Join> read_join(const Frame& frame, const Greeting& greeting, const std::string& secret);

[[nodiscard]] Frame welcome_frame(const Join& join, const Greeting& greeting, const std::string& secret);
/// Whether the sender knows the secret.
[[nodiscard]] bool is_true_welcome(const Frame& frame, const Join& join, const Greeting& greeting,
                                   const std::string& secret);

}  // namespace strata::rendezvous
