#include "cli/rank_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "strata/error.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

/// Time for other ranks to notice a failure and report where they were.
constexpr std::chrono::seconds kGrace{10};

RuntimeError failure(const std::string& what) {
  return RuntimeError("a rank's process cannot be started: " + what + ": " + std::strerror(errno));
}

/// This process's environment with `changes`, in the form of execve.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string entry = *each;
    if (!changes.contains(entry.substr(0, entry.find('=')))) all.push_back(entry);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Turns the child into the requested program. Uses only functions that are allowed between fork and exec.
[[noreturn]] void become(char* const* words, char* const* environment, int messages, const sigset_t& mask) {
  // Its own process group, so that signals of the terminal reach it only once, through the launcher.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  if (messages >= 0) {
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(messages, STDERR_FILENO);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve(words[0], words, environment);
  ::_exit(127);
}

}  // namespace

std::string describe(const ProcessEnd& end) {
  const std::string rank = "rank " + std::to_string(end.rank);
  if (end.signal == 0) return rank + " ended with exit code " + std::to_string(end.exit_code);
  return rank + " was ended by signal " + std::to_string(end.signal) + " (" + ::strsignal(end.signal) + ")";
}

RankProcesses::RankProcesses(const std::vector<ProcessRequest>& requests, Line line) : RankProcesses(std::move(line)) {
  for (const ProcessRequest& request : requests) start(request);
}

RankProcesses::RankProcesses(Line line) : line_(std::move(line)) {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
  signals_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

RankProcesses::~RankProcesses() {
  send(SIGKILL);
  for (const Process& process : processes_) {
    if (process.running) ::waitpid(process.id, nullptr, 0);
    if (process.messages >= 0) ::close(process.messages);
  }
  ::close(signals_);
  ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void RankProcesses::start(const ProcessRequest& request) {
  std::vector<std::string> words = request.words;
  std::vector<std::string> environment = environment_with(request.environment);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  std::array<int, 2> pipe{-1, -1};
  if (!processes_.empty() && ::pipe2(pipe.data(), O_CLOEXEC) != 0) throw failure("pipe");
  const pid_t id = ::fork();
  if (id == 0) become(word_pointers.data(), environment_pointers.data(), pipe[1], previous_mask_);
  if (pipe[1] >= 0) ::close(pipe[1]);
  if (id < 0) {
    if (pipe[0] >= 0) ::close(pipe[0]);
    throw failure("fork");
  }
  processes_.push_back({id, true, pipe[0], ""});
}

std::vector<ProcessEnd> RankProcesses::wait() {
  Clock::time_point deadline = Clock::time_point::max();
  while (any_running()) {
    std::vector<pollfd> wanted{{signals_, POLLIN, 0}};
    for (const Process& process : processes_) wanted.push_back({process.messages, POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const bool limited = deadline != Clock::time_point::max();
    ::poll(wanted.data(), wanted.size(), limited ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1);
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (wanted[rank + 1].revents != 0) read_messages(rank);
    }
    read_signals();
    collect();
    const bool failed = std::any_of(ends_.begin(), ends_.end(), [](const ProcessEnd& end) { return end.failed(); });
    if (failed && !limited) deadline = Clock::now() + kGrace;
    if (Clock::now() < deadline || ended_by_force_) continue;
    ended_by_force_ = true;
    send(SIGKILL);
  }
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) read_messages(rank);
  // Peers that end because a process died may be noticed before that process, so put signals first.
  std::stable_partition(ends_.begin(), ends_.end(), [](const ProcessEnd& end) { return end.signal != 0; });
  return ends_;
}

void RankProcesses::read_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo != SIGCHLD) send(static_cast<int>(signal.ssi_signo));
  }
}

void RankProcesses::read_messages(std::size_t rank) {
  Process& process = processes_[rank];
  std::array<char, 4096> buffer{};
  while (process.messages >= 0) {
    pollfd readable{process.messages, POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0) return;
    const ssize_t count = ::read(process.messages, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ::close(process.messages);
      process.messages = -1;
      if (!process.open_line.empty()) line_(static_cast<int>(rank), process.open_line);
      return;
    }
    process.open_line.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = process.open_line.find('\n')) != std::string::npos;) {
      line_(static_cast<int>(rank), process.open_line.substr(0, end));
      process.open_line.erase(0, end + 1);
    }
  }
}

void RankProcesses::collect() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    Process& process = processes_[rank];
    int status = 0;
    if (!process.running || ::waitpid(process.id, &status, WNOHANG) != process.id) continue;
    process.running = false;
    if (ended_by_force_) continue;
    ends_.push_back({static_cast<int>(rank), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                     WIFSIGNALED(status) ? WTERMSIG(status) : 0});
  }
}

void RankProcesses::send(int signal) const {
  for (const Process& process : processes_) {
    if (process.running) ::kill(process.id, signal);
  }
}

bool RankProcesses::any_running() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) { return process.running; });
}

}  // namespace strata::host
