#pragma once

namespace strata::host {

/// From now on, a program that dies inside of a hook of a plugin says so on standard error, with plugin and hook:
/// - by a signal such as SIGSEGV or SIGABRT (abort(), std::terminate()). The signal then acts as before, and the core
///   dump shows the fault;
/// - by exit() or quick_exit(). The exit code is then never 0.
/// A handler that exists, such as a sanitizer's, stays. _exit() cannot be noticed.
void name_hooks_at_death();

}  // namespace strata::host
