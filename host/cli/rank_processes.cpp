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
#include <limits>

#include "strata/error.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

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
  // An ignored signal would stay ignored in the program.
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve(words[0], words, environment);
  ::_exit(127);
}

}  // namespace

std::string describe(const ProcessEnd& end) {
  const std::string rank = "rank " + std::to_string(end.rank);
  if (end.by_force) return rank + " did not end in time and was ended by force";
  if (end.signal == 0) return rank + " ended with exit code " + std::to_string(end.exit_code);
  return rank + " was ended by signal " + std::to_string(end.signal) + " (" + ::strsignal(end.signal) + ")";
}

RankProcesses::RankProcesses(const std::vector<ProcessRequest>& requests, const Grace& grace, Line line)
    : RankProcesses(grace, std::move(line)) {
  for (const ProcessRequest& request : requests) start(request);
}

RankProcesses::RankProcesses(const Grace& grace, Line line) : grace_(grace), line_(std::move(line)) {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  for (const int signal : kStopSignals) ::sigaddset(&mask, signal);
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
  while (any_running()) {
    std::vector<pollfd> wanted{{signals_, POLLIN, 0}};
    for (const Process& process : processes_) wanted.push_back({process.messages, POLLIN, 0});
    const bool limited = deadline_ != Clock::time_point::max() && !ended_by_force_;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    const std::int64_t longest = std::numeric_limits<int>::max();
    ::poll(wanted.data(), wanted.size(), limited ? static_cast<int>(std::clamp<std::int64_t>(left, 0, longest)) : -1);
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (wanted[rank + 1].revents != 0) read_messages(rank);
    }
    read_signals();
    collect();
    if (Clock::now() < deadline_ || ended_by_force_) continue;
    ended_by_force_ = true;
    send(SIGKILL);
  }
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) read_messages(rank);
  // Peers that end because a process died may be noticed before that process, so put signals first.
  const auto place = [](const ProcessEnd& end) { return end.by_force ? 2 : end.signal != 0 ? 0 : 1; };
  std::stable_sort(ends_.begin(), ends_.end(),
                   [&](const ProcessEnd& a, const ProcessEnd& b) { return place(a) < place(b); });
  return ends_;
}

void RankProcesses::read_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo == SIGCHLD) continue;
    asked_to_stop_ = true;
    send(static_cast<int>(signal.ssi_signo));
    if (grace_.after_signal) end_within(*grace_.after_signal);
    if (requests_.note() >= SignalCount::kLimit) end_within(Grace::Seconds(0));
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
    const ProcessEnd end{static_cast<int>(rank), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                         ended_by_force_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL};
    ends_.push_back(end);
    end_within(end.failed() ? grace_.after_failure : grace_.after_end);
  }
}

void RankProcesses::end_within(Grace::Seconds grace) {
  deadline_ = std::min(deadline_, Clock::now() + std::chrono::duration_cast<Clock::duration>(grace));
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
