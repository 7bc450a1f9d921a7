#include "launch/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "diagnosis/run_signals.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

RuntimeError start_failure(const std::string& call) {
  return RuntimeError("a process cannot be started: " + call + ": " + std::strerror(errno));
}

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw start_failure("pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
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

/// What the child needs between fork and exec, where memory may not be allocated.
struct Become {
  char* const* words;
  char* const* environment;
  int input;
  int output;
  int errors;
  int signal_at_parents_death;
  pid_t parent;
  const sigset_t* mask;
};

/// Turns the child into the requested program. Uses only functions that are allowed between fork and exec.
[[noreturn]] void become(const Become& what) {
  ::setpgid(0, 0);
  if (what.signal_at_parents_death != 0) {
    ::prctl(PR_SET_PDEATHSIG, what.signal_at_parents_death);
    // The parent may have died before the call.
    if (::getppid() != what.parent) ::_exit(127);
  }
  ::dup2(what.input, STDIN_FILENO);
  ::dup2(what.output, STDOUT_FILENO);
  ::dup2(what.errors, STDERR_FILENO);
  // An ignored signal would stay ignored in the program.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, what.mask, nullptr);
  ::execve(what.words[0], what.words, what.environment);
  ::_exit(127);
}

/// A longer line is passed on in pieces.
constexpr std::size_t kLongestLine = 1 << 20;

}  // namespace

ChildProcess start_child(const ProgramRequest& request, const sigset_t& mask) {
  std::vector<std::string> words = request.words;
  std::vector<std::string> environment = environment_with(request.environment);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  Pipe input;
  if (request.has_input) {
    input = make_pipe();
  } else {
    input.read = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const Become what{word_pointers.data(),  environment_pointers.data(),     input.read.number(), output.write.number(),
                    errors.write.number(), request.signal_at_parents_death, ::getpid(),          &mask};
  const pid_t id = ::fork();
  if (id == 0) become(what);
  if (id < 0) throw start_failure("fork");
  return {id, std::move(input.write), std::move(output.read), std::move(errors.read)};
}

void forbid_core_dumps() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  // The system pipes dumps to a program, such as systemd-coredump, in spite of a limit of 0, but not of 1.
  limit.rlim_cur = limit.rlim_max < 1 ? limit.rlim_max : 1;
  static_cast<void>(::setrlimit(RLIMIT_CORE, &limit));
}

void LineReader::read() {
  std::array<char, 4096> buffer{};
  while (pipe_.is_open()) {
    pollfd readable{pipe_.number(), POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0) return;
    const ssize_t count = ::read(pipe_.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      pipe_.close();
      if (!open_line_.empty()) line_(open_line_);
      return;
    }
    open_line_.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = open_line_.find('\n')) != std::string::npos;) {
      line_(open_line_.substr(0, end));
      open_line_.erase(0, end + 1);
    }
    if (open_line_.size() > kLongestLine) line_(std::exchange(open_line_, ""));
  }
}

SignalQueue::SignalQueue() {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  for (const int signal : kStopSignals) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
  descriptor_ = Descriptor(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

SignalQueue::~SignalQueue() { ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr); }

std::vector<int> SignalQueue::take() const {
  std::vector<int> signals;
  signalfd_siginfo signal{};
  while (::read(descriptor_.number(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo != SIGCHLD) signals.push_back(static_cast<int>(signal.ssi_signo));
  }
  return signals;
}

}  // namespace strata::host
