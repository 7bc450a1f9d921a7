#pragma once

#include <poll.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/child_process.hpp"
#include "launch/launch_protocol.hpp"
#include "launch/rank_placement.hpp"
#include "launch/rank_processes.hpp"

namespace strata::host {

/// How the agents of other hosts are started, and what every host must have.
struct HostAccess {
  /// A command of the shell, which gets a host and a command: "ssh -p 2222".
  std::string ssh = "ssh";
  /// The working directory, and the configuration's file.
  std::string directory;
  std::string configuration;
};

/// The launcher's connection with the agent of one host. This machine's own agent is started without ssh.
class HostConnection {
 public:
  /// Starts the agent. `note`: gets lines that ssh or the agent print while ranks run.
  HostConnection(HostSlots slots, const HostAccess& access, const SignalQueue& signals,
                 std::function<void(const std::string& text)> note);
  /// Closes the connection, so that an agent that still has ranks ends them.
  ~HostConnection();
  HostConnection(const HostConnection&) = delete;
  HostConnection& operator=(const HostConnection&) = delete;

  [[nodiscard]] const HostSlots& slots() const { return slots_; }
  /// True when the agent is ready to start ranks. port(): a port of its machine on which no process listens.
  [[nodiscard]] bool is_ready() const { return !port_.empty(); }
  [[nodiscard]] const std::string& port() const { return port_; }
  /// Why there is no connection, as in "host 'node2' cannot be reached: …".
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  void fail(const std::string& reason);

  void add_wanted(std::vector<pollfd>& wanted) const;
  void start(const StartRequest& request);
  void send(const nlohmann::json& frame) { channel_->send(frame); }
  /// Sends and reads what can be. \return the frames that concern ranks.
  [[nodiscard]] std::vector<nlohmann::json> attend();

 private:
  [[nodiscard]] std::vector<nlohmann::json> exchange();
  void check_version();
  /// The reason for the end of the connection: how ssh ended, and what it said last.
  [[nodiscard]] std::string end_of_agent();
  [[nodiscard]] std::optional<int> wait_for_agent();

  HostSlots slots_;
  HostAccess access_;
  bool is_local_;
  std::function<void(const std::string& text)> note_;
  pid_t process_ = -1;
  std::unique_ptr<FrameChannel> channel_;
  std::unique_ptr<LineReader> errors_;
  std::deque<std::string> last_lines_;
  LaunchHeartbeat heartbeat_;
  bool is_checked_ = false;
  bool has_ranks_ = false;
  std::string port_;
  std::optional<std::string> failure_;
};

using HostConnections = std::vector<std::unique_ptr<HostConnection>>;

/// Connects with all hosts, until each is ready or has failed. \return nothing if a signal asks to stop meanwhile.
[[nodiscard]] std::optional<HostConnections> connect_hosts(const std::vector<HostSlots>& hosts,
                                                           const HostAccess& access, const SignalQueue& signals,
                                                           const std::function<void(const std::string& text)>& note);

/// The processes of ranks on several hosts. Signals to stop are forwarded to all of them. If a rank fails or a host is
/// lost, the others get the grace to end.
class HostProcesses {
 public:
  /// Gets a line of a rank and the name of its host.
  using Line = std::function<void(const RankLine& line, const std::string& host)>;
  using Warn = std::function<void(const std::string& text)>;

  /// Starts `ranks[i]` on the host of `connections[i]`. `connections` and `signals` outlive this object.
  HostProcesses(HostConnections& connections, const std::vector<std::vector<ProcessRequest>>& ranks,
                const std::string& logs, const Grace& grace, const SignalQueue& signals, Line line, Warn warn);

  /// Returns when all ranks have ended or are lost. \return how they ended, sorted by cause.
  [[nodiscard]] std::vector<ProcessEnd> wait();
  /// Why hosts were lost before their ranks had ended.
  [[nodiscard]] const std::vector<std::string>& lost_hosts() const { return lost_hosts_; }
  /// True if a signal has asked the run to stop.
  [[nodiscard]] bool asked_to_stop() const { return deadline_.asked_to_stop(); }

 private:
  struct Host {
    HostConnection* connection = nullptr;
    int running = 0;
  };

  void wait_for_events() const;
  void attend(Host& host);
  void note(const nlohmann::json& frame, Host& host);
  void send(const nlohmann::json& frame);
  [[nodiscard]] bool any_running() const;

  const SignalQueue& signals_;
  Line line_;
  Warn warn_;
  std::vector<Host> hosts_;
  std::vector<ProcessEnd> ends_;
  std::vector<std::string> lost_hosts_;
  EndDeadline deadline_;
  /// When hosts whose ranks still run after the end by force are lost.
  EndDeadline last_deadline_{Grace{}};
};

}  // namespace strata::host
