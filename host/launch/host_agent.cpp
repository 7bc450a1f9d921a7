#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/child_process.hpp"
#include "launch/launch_protocol.hpp"
#include "setup/launched_process.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Lines that wait for the launcher, in bytes. Further ones are in the ranks' files only.
constexpr std::size_t kMostWaiting = 4 << 20;
constexpr int kFlushMilliseconds = 5000;
constexpr int kIdleMilliseconds = 1000;
/// How long an agent waits for the launcher, which compiles before it starts ranks.
constexpr std::chrono::minutes kLongestWait{30};

/// Makes this process's folder the launcher's. \return the reason if the ranks cannot run here, or "".
std::string prepare_host(const json& request) {
  const std::string directory = request.at("directory");
  std::error_code error;
  fs::current_path(directory, error);
  if (error) return "the folder '" + directory + "' cannot be entered: " + error.message();
  const std::string configuration = request.at("configuration");
  if (!std::ifstream(configuration)) {
    return "the configuration '" + configuration + "' cannot be read there (in the folder " + directory + ")";
  }
  return "";
}

/// The ranks of this host, and the launcher's wishes.
class AgentRun {
 public:
  AgentRun(FrameChannel& channel, const SignalQueue& signals, const StartRequest& request)
      : channel_(channel),
        orphan_grace_(request.grace.after_signal.value_or(request.grace.after_end)),
        processes_(request.ranks, request.grace, signals, output(request.logs)) {}

  void run() {
    const Companion companion{[this](std::vector<pollfd>& wanted) { channel_.add_wanted(wanted); },
                              [this] { attend(); }, [this](const ProcessEnd& end) { channel_.send(to_frame(end)); }};
    static_cast<void>(processes_.wait(&companion));
  }

 private:
  RankOutput output(const std::string& logs) {
    const auto line = [this](const RankLine& each) {
      if (channel_.waiting_bytes() < kMostWaiting) channel_.send(to_frame(each));
    };
    const auto warn = [this](const std::string& text) {
      channel_.send({{frame::kKind, frame::kWarning}, {"text", text}});
    };
    return {line, warn, logs};
  }

  void attend() {
    if (is_orphan_) return;
    for (const json& each : channel_.exchange()) {
      heartbeat_.note_frame();
      obey(each);
    }
    if (!channel_.has_ended() && !heartbeat_.is_silent()) return;
    is_orphan_ = true;
    channel_.close();
    processes_.stop(SIGTERM);
    processes_.end_within(orphan_grace_);
  }

  void obey(const json& request) {
    const std::string kind = request.value(frame::kKind, "");
    if (kind == frame::kSignal) processes_.stop(request.at("number"));
    if (kind == frame::kKill) processes_.end_within(Grace::Seconds(0));
    if (kind == frame::kPing) channel_.send({{frame::kKind, frame::kPong}});
  }

  FrameChannel& channel_;
  LaunchHeartbeat heartbeat_;
  Grace::Seconds orphan_grace_;
  bool is_orphan_ = false;
  RankProcesses processes_;
};

/// Waits for the request to start, and answers until then. Empty if there is none.
std::optional<StartRequest> await_start(FrameChannel& channel, const SignalQueue& signals) {
  const auto limit = std::chrono::steady_clock::now() + kLongestWait;
  while (!channel.has_ended() && std::chrono::steady_clock::now() < limit) {
    std::vector<pollfd> wanted{{signals.descriptor(), POLLIN, 0}};
    channel.add_wanted(wanted);
    ::poll(wanted.data(), wanted.size(), kIdleMilliseconds);
    if (!signals.take().empty()) return std::nullopt;
    for (const json& request : channel.exchange()) {
      const std::string kind = request.value(frame::kKind, "");
      if (kind == frame::kStart) {
        // It holds the run's secret.
        forbid_core_dumps();
        return start_request(request);
      }
      if (kind != frame::kPrepare) continue;
      const std::string refusal = prepare_host(request);
      if (refusal.empty()) channel.send({{frame::kKind, frame::kReady}, {"port", free_port()}});
      if (!refusal.empty()) channel.send({{frame::kKind, frame::kRefused}, {"reason", refusal}});
    }
  }
  return std::nullopt;
}

Descriptor copy_of(int number) {
  Descriptor copy(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!copy.is_open()) throw RuntimeError(std::string("no standard input or output: ") + std::strerror(errno));
  return copy;
}

/// The frames take standard input and output. What else is printed goes to standard error.
FrameChannel take_standard_streams() {
  FrameChannel channel(copy_of(STDIN_FILENO), copy_of(STDOUT_FILENO));
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nothing.number(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return channel;
}

}  // namespace

int serve_launcher() {
  FrameChannel channel = take_standard_streams();
  const SignalQueue signals;
  channel.send_greeting(kAgentGreeting + launch_version());
  try {
    if (const auto request = await_start(channel, signals)) AgentRun(channel, signals, *request).run();
  } catch (const std::exception& error) {
    channel.send({{frame::kKind, frame::kFailed}, {"reason", error.what()}});
  }
  channel.flush(kFlushMilliseconds);
  return 0;
}

}  // namespace strata::host
