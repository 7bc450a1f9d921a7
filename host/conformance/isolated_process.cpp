#include "conformance/isolated_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "conformance/check.hpp"
#include "files/descriptor.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The child's part: never returns. It ends without destructors and exit handlers, which belong to the parent.
[[noreturn]] void run_child(const std::function<std::string()>& body, int result) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  CheckVerdict verdict;
  try {
    verdict = {Outcome::passed, body()};
  } catch (const CheckSkipped& reason) {
    verdict = {Outcome::skipped, reason.what()};
  } catch (...) {
    verdict = {Outcome::failed, current_exception_text()};
  }
  std::cerr.flush();
  static_cast<void>(write_all(result, static_cast<char>('0' + static_cast<int>(verdict.outcome)) + verdict.message));
  ::_exit(0);
}

/// Reads until the writer ends. \return false after the time limit.
bool read_until(int descriptor, std::chrono::steady_clock::time_point end, std::string& text) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{descriptor, POLLIN, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    char buffer[4096];
    const ssize_t count = ::read(descriptor, buffer, sizeof(buffer));
    if (count == 0) return true;
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  }
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return "the check's process was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ")";
  }
  return "the check's process ended with exit code " + std::to_string(WEXITSTATUS(status)) + " before the check did";
}

}  // namespace

IsolatedProcess::IsolatedProcess(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw RuntimeError(std::string("no pipe can be opened: ") + std::strerror(errno));
  std::cout.flush();
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    run_child(body, ends[1]);
  }
  ::close(ends[1]);
  from_child_ = ends[0];
  if (process_ > 0) return;
  const std::string cause = std::strerror(errno);
  ::close(from_child_);
  throw RuntimeError("no process can be started: " + cause);
}

IsolatedProcess::~IsolatedProcess() {
  ::close(from_child_);
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

CheckVerdict IsolatedProcess::wait(std::chrono::steady_clock::time_point end, std::chrono::seconds limit) {
  std::string text;
  const bool ended = read_until(from_child_, end, text);
  if (!ended) ::kill(process_, SIGKILL);
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (!ended) return {Outcome::failed, "the check did not end within " + std::to_string(limit.count()) + " s"};
  if (text.empty() || !WIFEXITED(status)) return {Outcome::failed, describe_end(status)};
  return {static_cast<Outcome>(text.front() - '0'), text.substr(1)};
}

CheckVerdict run_isolated(const std::function<std::string()>& body, std::chrono::seconds limit) {
  return IsolatedProcess(body).wait(std::chrono::steady_clock::now() + limit, limit);
}

}  // namespace strata::host
