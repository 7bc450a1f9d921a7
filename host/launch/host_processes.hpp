#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/host_connection.hpp"
#include "launch/process_end.hpp"
#include "launch/signal_queue.hpp"

namespace strata::host {

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
