#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launch/end_deadline.hpp"
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

}  // namespace strata::host
