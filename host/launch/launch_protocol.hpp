#pragma once

#include <poll.h>

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files/descriptor.hpp"
#include "launch/rank_processes.hpp"

namespace strata::host {

/// Frames between `strata launch` and its agent on another host, through a pair of pipes. A frame is the length of its
/// contents (4 bytes, the lowest first) and a CBOR value. Neither reading nor writing waits for the other side.
class FrameChannel {
 public:
  FrameChannel(Descriptor input, Descriptor output);

  /// Sends the line `text` before all frames.
  void send_greeting(const std::string& text);
  /// Skips what comes before a line that begins with `begin`, as shells greet their users. Frames follow that line.
  void expect_greeting(const std::string& begin) { expected_ = begin; }
  /// The rest of that line, when it has come.
  [[nodiscard]] const std::optional<std::string>& greeting() const { return greeting_; }

  void send(const nlohmann::json& frame);
  /// Appends what the channel waits for.
  void add_wanted(std::vector<pollfd>& wanted) const;
  /// Writes what can be written and reads what has come. \return the frames that are complete.
  [[nodiscard]] std::vector<nlohmann::json> exchange();
  /// True if nothing more will come.
  [[nodiscard]] bool has_ended() const { return !input_.is_open(); }
  /// Bytes that are sent but not written.
  [[nodiscard]] std::size_t waiting_bytes() const { return unsent_.size(); }
  /// Sends what is waiting, for at most `milliseconds`.
  void flush(int milliseconds);
  void close();

 private:
  void write();
  void read();
  void find_greeting();
  [[nodiscard]] std::optional<nlohmann::json> next_frame();

  Descriptor input_;
  Descriptor output_;
  std::string expected_;
  std::optional<std::string> greeting_;
  std::string received_;
  std::string unsent_;
};

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

/// `strata launch-host`: the agent of `strata launch` on a host. It serves the launcher at the other end of standard
/// input and output: starts the ranks of this host, and passes on what they write and how they end. If the launcher
/// ends or is silent for LaunchHeartbeat::kSilence, the agent asks the ranks to stop, and ends them by force after the
/// grace. \return the exit code.
int serve_launcher();

}  // namespace strata::host
