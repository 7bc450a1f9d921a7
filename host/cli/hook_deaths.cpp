#include "cli/hook_deaths.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cli/exit_codes.hpp"
#include "plugins/hook_scope.hpp"

namespace strata::host {
namespace {

void write_text(const char* text) {
  // Nothing can be done if standard error is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void write_line(const char* hook) {
  write_text("error: ");
  write_text(hook);
  write_text(runs_hook() ? " ended the program\n" : " ran when another thread ended the program\n");
}

extern "C" void name_signal(int number, siginfo_t* info, void* /*context*/) {
  visit_running_hooks(write_line);
  // The action is the default one again. A fault happens again on return; a signal that was sent does not.
  if (info->si_code <= 0) ::raise(number);
}

extern "C" void name_exit(int code, void* /*argument*/) {
  if (!runs_hook()) return;
  visit_running_hooks(write_line);
  ::_exit(code == 0 ? kFailed : code);
}

extern "C" void name_quick_exit() { name_exit(kFailed, nullptr); }

}  // namespace

void name_hooks_at_death() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction existing {};
    if (::sigaction(number, nullptr, &existing) != 0 || existing.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = name_signal;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
    ::sigemptyset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
  // Unlike atexit(), on_exit() passes the exit code.
  ::on_exit(name_exit, nullptr);
  std::at_quick_exit(name_quick_exit);
}

}  // namespace strata::host
