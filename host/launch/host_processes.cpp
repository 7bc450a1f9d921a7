#include "launch/host_processes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace strata::host {
namespace {

using nlohmann::json;

constexpr int kAttendMilliseconds = 1000;
/// How long an agent may take to end its ranks by force and to say so.
constexpr Grace::Seconds kForceLimit{10};

}  // namespace

HostProcesses::HostProcesses(HostConnections& connections, const std::vector<std::vector<ProcessRequest>>& ranks,
                             const std::string& logs, const Grace& grace, const SignalQueue& signals, Line line,
                             Warn warn)
    : signals_(signals), line_(std::move(line)), warn_(std::move(warn)), deadline_(grace) {
  for (std::size_t i = 0; i < connections.size(); ++i) {
    if (ranks[i].empty()) continue;
    hosts_.push_back({connections[i].get(), static_cast<int>(ranks[i].size())});
    connections[i]->start({ranks[i], grace, logs});
  }
}

std::vector<ProcessEnd> HostProcesses::wait() {
  while (any_running()) {
    wait_for_events();
    for (const int signal : signals_.take()) {
      send({{frame::kKind, frame::kSignal}, {"number", signal}});
      deadline_.note_request();
    }
    for (Host& host : hosts_) attend(host);
    if (deadline_.strikes()) {
      send({{frame::kKind, frame::kKill}});
      last_deadline_.end_within(kForceLimit);
    }
    if (!last_deadline_.strikes()) continue;
    for (Host& host : hosts_) {
      if (host.running > 0) host.connection->fail("was lost: it has not ended its ranks");
    }
  }
  sort_by_cause(ends_);
  return ends_;
}

void HostProcesses::wait_for_events() const {
  std::vector<pollfd> wanted{{signals_.descriptor(), POLLIN, 0}};
  for (const Host& host : hosts_) host.connection->add_wanted(wanted);
  const int left = deadline_.milliseconds_left();
  ::poll(wanted.data(), wanted.size(), left < 0 ? kAttendMilliseconds : std::min(left, kAttendMilliseconds));
}

void HostProcesses::attend(Host& host) {
  for (const json& each : host.connection->attend()) note(each, host);
  if (host.running == 0 || !host.connection->failure()) return;
  host.running = 0;
  lost_hosts_.push_back(*host.connection->failure());
  deadline_.note_failure();
}

void HostProcesses::note(const json& frame, Host& host) {
  const std::string& name = host.connection->slots().name;
  const std::string kind = frame.at(frame::kKind);
  if (kind == frame::kLine) line_(rank_line(frame), name);
  if (kind == frame::kWarning) warn_("host '" + name + "': " + frame.at("text").get<std::string>());
  if (kind != frame::kEnd) return;
  ProcessEnd end = process_end(frame);
  end.host = name;
  --host.running;
  deadline_.note_end(end);
  ends_.push_back(std::move(end));
}

void HostProcesses::send(const json& frame) {
  for (const Host& host : hosts_) {
    if (host.running > 0) host.connection->send(frame);
  }
}

bool HostProcesses::any_running() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.running > 0; });
}

}  // namespace strata::host
