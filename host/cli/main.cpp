#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "cli/command_line.hpp"
#include "files/exit_codes.hpp"
#include "launch/child_process.hpp"
#include "strata/internal/hook_scope.hpp"

namespace strata::host {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

/// One write, so that the lines of threads that die together do not mix.
void write_line(const char* plugin, const char* hook) {
  std::array<char, 2048> line;
  std::size_t at = 0;
  const auto append = [&](std::string_view text) { at += text.copy(line.data() + at, line.size() - at); };
  append("error: ");
  append(std::string_view(plugin).substr(0, line.size() / 2));
  append(": hook '");
  append(hook);
  append(runs_hook() ? "' ended the program\n" : "' ran when another thread ended the program\n");
  // Nothing can be done if standard error is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), at);
}

extern "C" void name_signal(int number, siginfo_t* info, void* /*context*/) {
  visit_running_hooks(write_line);
  // Only now, so that a second thread that dies does not end the process before the line is written.
  ::signal(number, SIG_DFL);
  // A fault happens again on return; a signal that was sent does not.
  if (info->si_code <= 0) ::raise(number);
}

extern "C" void name_exit(int code, void* /*argument*/) {
  if (!runs_hook()) return;
  visit_running_hooks(write_line);
  ::_exit(code == 0 ? kFailed : code);
}

extern "C" void name_quick_exit() { name_exit(kFailed, nullptr); }

/// Opens the null device as every standard stream that is closed. Otherwise, the first file that the program opens
/// would take its place, and get what the program prints. Must be the first call of the program.
void open_closed_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() takes the lowest free number, which is this one.
    if (::fcntl(descriptor, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

/// Makes threads of OpenMP that wait for each other sleep after 1000 spins instead of 300,000, libgomp's default. If
/// other processes want the same cores, threads that spin for long take the time of the thread for which they wait.
///
/// libgomp reads the number from the environment before main() begins, so the program starts itself once more with the
/// same arguments and process number. If the environment chooses a way of waiting already, another OpenMP than libgomp
/// is used, or the program cannot start itself, nothing changes.
void shorten_openmp_waits(char* const* arguments) {
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  const bool has_libgomp = ::dlsym(RTLD_DEFAULT, "GOMP_parallel") != nullptr;
  // A program without an interpreter was started by the dynamic loader, which then is /proc/self/exe.
  if (!has_libgomp || ::getauxval(AT_BASE) == 0) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv(kSpinCount, "1000", 0) != 0) return;
  ::execv(program.c_str(), arguments);
  ::unsetenv(kSpinCount);
}

/// From now on, a program that dies inside of a hook of a plugin says so on standard error, with plugin and hook:
/// - by a signal such as SIGSEGV or SIGABRT (abort(), std::terminate()). The signal then acts as before, and the core
///   dump shows the fault;
/// - by exit() or quick_exit(). The exit code is then never 0.
/// A handler that exists, such as a sanitizer's, stays. _exit() cannot be noticed.
void name_hooks_at_death() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction existing {};
    if (::sigaction(number, nullptr, &existing) != 0 || existing.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = name_signal;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK);
    ::sigemptyset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
  // Unlike atexit(), on_exit() passes the exit code.
  ::on_exit(name_exit, nullptr);
  std::at_quick_exit(name_quick_exit);
}

}  // namespace
}  // namespace strata::host

int main(int argument_count, char** arguments) {
  strata::host::open_closed_streams();
  if (std::getenv("STRATA_SECRET") != nullptr) strata::host::forbid_core_dumps();
  strata::host::shorten_openmp_waits(arguments);
  strata::host::name_hooks_at_death();
  return strata::host::run_command_line(argument_count, arguments, std::cout, std::cerr);
}
