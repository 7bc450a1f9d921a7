#include "launch/host_connection.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "files/json.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kConnectLimit{30};
constexpr int kTickMilliseconds = 1000;
constexpr std::size_t kKeptLines = 3;
/// How long ssh may take to end after its output has.
constexpr std::chrono::milliseconds kEndLimit{3000};
/// Exit code of a shell that does not find a program.
constexpr int kNotFound = 127;

/// ssh asks nothing, gives up a host that is down, and notices a connection that is cut.
constexpr const char* kSshOptions =
    " -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=4";

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// The word as every shell reads it.
std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  return text + "'";
}

/// True if the first word of a command is ssh, so that it takes ssh's options.
bool is_ssh(const std::string& command) {
  const std::string program = command.substr(0, command.find_first_of(" \t"));
  return std::filesystem::path(program).filename() == "ssh";
}

std::vector<std::string> agent_words(const std::string& host, bool is_local, const std::string& ssh) {
  if (is_local) return {own_program(), kHostAgentCommand};
  const std::string script = "exec " + ssh + (is_ssh(ssh) ? kSshOptions : "") + R"( "$@")";
  return {"/bin/sh", "-c", script, "sh", host, "exec " + shell_quoted(own_program()) + " " + kHostAgentCommand};
}

constexpr int kAttendMilliseconds = 1000;
/// How long an agent may take to end its ranks by force and to say so.
constexpr Grace::Seconds kForceLimit{10};

}  // namespace

HostConnection::HostConnection(HostSlots slots, const HostAccess& access, const SignalQueue& signals,
                               std::function<void(const std::string& text)> note)
    : slots_(std::move(slots)), access_(access), is_local_(is_this_machine(slots_.name)), note_(std::move(note)) {
  ChildProcess child = start_child({.words = agent_words(slots_.name, is_local_, access_.ssh), .has_input = true},
                                   signals.previous_mask());
  process_ = child.id;
  channel_ = std::make_unique<FrameChannel>(std::move(child.output), std::move(child.input));
  channel_->expect_greeting(kAgentGreeting);
  channel_->send(
      {{frame::kKind, frame::kPrepare}, {"directory", access_.directory}, {"configuration", access_.configuration}});
  errors_ = std::make_unique<LineReader>(std::move(child.errors), [this](const std::string& text) {
    if (has_ranks_) note_(text);
    if (text.find_first_not_of(" \t\r") == std::string::npos) return;
    last_lines_.push_back(text);
    if (last_lines_.size() > kKeptLines) last_lines_.pop_front();
  });
}

HostConnection::~HostConnection() {
  channel_->close();
  if (process_ > 0 && (failure_ || !wait_for_agent())) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

void HostConnection::fail(const std::string& reason) {
  if (failure_) return;
  failure_ = "host '" + slots_.name + "' " + reason;
  channel_->close();
}

void HostConnection::add_wanted(std::vector<pollfd>& wanted) const {
  channel_->add_wanted(wanted);
  if (errors_->descriptor() >= 0) wanted.push_back({errors_->descriptor(), POLLIN, 0});
}

void HostConnection::start(const StartRequest& request) {
  has_ranks_ = true;
  heartbeat_ = LaunchHeartbeat();
  channel_->send(to_frame(request));
}

std::vector<json> HostConnection::attend() {
  errors_->read();
  if (failure_) return {};
  try {
    std::vector<json> frames = exchange();
    if (channel_->has_ended()) fail(end_of_agent());
    return frames;
  } catch (const json::exception& error) {
    fail("sent a frame that cannot be read: " + json_mistake(error));
    return {};
  }
}

std::vector<json> HostConnection::exchange() {
  std::vector<json> of_ranks;
  std::vector<json> frames = channel_->exchange();
  check_version();
  for (json& each : frames) {
    heartbeat_.note_frame();
    const std::string kind = each.at(frame::kKind);
    if (kind == frame::kReady) port_ = each.at("port");
    if (kind == frame::kRefused || kind == frame::kFailed) {
      fail("cannot run ranks: " + each.at("reason").get<std::string>());
    }
    if (kind == frame::kLine || kind == frame::kWarning || kind == frame::kEnd) of_ranks.push_back(std::move(each));
  }
  if (has_ranks_ && !failure_) {
    if (heartbeat_.is_due()) channel_->send({{frame::kKind, frame::kPing}});
    if (heartbeat_.is_silent()) {
      fail(fmt::format("was lost: it has not answered for {} s", LaunchHeartbeat::kSilence.count()));
    }
  }
  return of_ranks;
}

void HostConnection::check_version() {
  if (is_checked_ || !channel_->greeting()) return;
  is_checked_ = true;
  if (*channel_->greeting() == launch_version()) return;
  fail("has strata " + *channel_->greeting() + " at " + own_program() + "; accepted: " + launch_version() +
       ", the launcher's");
}

std::string HostConnection::end_of_agent() {
  const std::optional<int> status = wait_for_agent();
  errors_->read();
  const std::string said = last_lines_.empty() ? "" : fmt::format(": {}", fmt::join(last_lines_, "; "));
  const std::string program = is_local_ ? "its agent" : "'" + access_.ssh + "'";
  if (!status) return "was lost: " + program + " closed its output" + said;
  const bool by_signal = WIFSIGNALED(*status);
  const int code = by_signal ? WTERMSIG(*status) : WEXITSTATUS(*status);
  if (!by_signal && code == kNotFound && !has_ranks_) {
    return "cannot start " + own_program() + ", which is strata's path on this machine" + said;
  }
  return fmt::format("{}: {} ended with {} {}{}", has_ranks_ ? "was lost" : "cannot be reached", program,
                     by_signal ? "signal" : "exit code", code, said);
}

std::optional<int> HostConnection::wait_for_agent() {
  const auto limit = std::chrono::steady_clock::now() + kEndLimit;
  int status = 0;
  while (::waitpid(process_, &status, WNOHANG) != process_) {
    if (std::chrono::steady_clock::now() > limit) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process_ = -1;
  return status;
}

std::optional<HostConnections> connect_hosts(const std::vector<HostSlots>& hosts, const HostAccess& access,
                                             const SignalQueue& signals,
                                             const std::function<void(const std::string& text)>& note) {
  HostConnections connections;
  for (const HostSlots& host : hosts) {
    connections.push_back(std::make_unique<HostConnection>(
        host, access, signals, [note, name = host.name](const std::string& text) { note("[" + name + "] " + text); }));
  }
  const auto is_settled = [](const auto& each) { return each->is_ready() || each->failure(); };
  const auto limit = std::chrono::steady_clock::now() + kConnectLimit;
  while (!std::ranges::all_of(connections, is_settled)) {
    std::vector<pollfd> wanted{{signals.descriptor(), POLLIN, 0}};
    for (const auto& each : connections) each->add_wanted(wanted);
    ::poll(wanted.data(), wanted.size(), kTickMilliseconds);
    if (!signals.take().empty()) return std::nullopt;
    for (const auto& each : connections) {
      static_cast<void>(each->attend());
      if (std::chrono::steady_clock::now() < limit || is_settled(each)) continue;
      each->fail(fmt::format("cannot be reached: it has not answered within {} s", kConnectLimit.count()));
    }
  }
  return connections;
}

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
  return std::ranges::any_of(hosts_, [](const Host& host) { return host.running > 0; });
}

}  // namespace strata::host
