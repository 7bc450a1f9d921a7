#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launch/process_end.hpp"
#include "launch/rank_processes.hpp"

namespace strata::host {

/// \file
/// What `strata launch` and its agent on another host say. The agent greets. The launcher prepares it, starts ranks,
/// and ends it by closing its standard input.
///
///     agent    -> strata-launch-host VERSION ABI
///     launcher -> prepare(directory, configuration)
///     agent    -> ready(port) | refused(reason)
///     launcher -> start(ranks, grace, logs), then signal(number), kill, ping
///     agent    -> line(rank, is_error, text), warning(text), pong, end(rank, …), failed(reason)
///
/// The ranks' environment, and with it their secret, is in `start`, and so in no command line.

/// `strata launch --hosts` starts `strata launch-host` on each host. It is no command of the parser, because only the
/// launcher can speak with it.
inline constexpr const char* kHostAgentCommand = "launch-host";

/// How the agent's greeting begins.
inline constexpr const char* kAgentGreeting = "strata-launch-host ";

/// The version that both sides must have: "0.4.0 (ABI 7)".
[[nodiscard]] std::string launch_version();

namespace frame {

inline constexpr const char* kKind = "kind";
inline constexpr const char* kPrepare = "prepare";
inline constexpr const char* kReady = "ready";
inline constexpr const char* kRefused = "refused";
inline constexpr const char* kStart = "start";
inline constexpr const char* kSignal = "signal";
inline constexpr const char* kKill = "kill";
inline constexpr const char* kPing = "ping";
inline constexpr const char* kPong = "pong";
inline constexpr const char* kLine = "line";
inline constexpr const char* kWarning = "warning";
inline constexpr const char* kEnd = "end";
inline constexpr const char* kFailed = "failed";

}  // namespace frame

/// What the agent is to start.
struct StartRequest {
  std::vector<ProcessRequest> ranks;
  Grace grace;
  /// Folder of the ranks' files.
  std::string logs;
};

[[nodiscard]] nlohmann::json to_frame(const StartRequest& request);
[[nodiscard]] nlohmann::json to_frame(const RankLine& line);
[[nodiscard]] nlohmann::json to_frame(const ProcessEnd& end);
/// The reverse. \throws nlohmann::json::exception for a frame without their values.
[[nodiscard]] StartRequest start_request(const nlohmann::json& frame);
[[nodiscard]] RankLine rank_line(const nlohmann::json& frame);
[[nodiscard]] ProcessEnd process_end(const nlohmann::json& frame);

/// When to send a sign of life to the other side of a FrameChannel, and whether it has been silent for too long.
class LaunchHeartbeat {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr std::chrono::seconds kSilence{30};

  void note_frame() { heard_ = Clock::now(); }
  /// True every kPeriod.
  [[nodiscard]] bool is_due();
  /// True if nothing came for kSilence. Time in which this process was stopped does not count.
  [[nodiscard]] bool is_silent();

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point sent_ = Clock::now();
  Clock::time_point heard_ = Clock::now();
  Clock::time_point asked_ = Clock::now();
};

}  // namespace strata::host
