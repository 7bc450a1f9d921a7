#pragma once

namespace strata::host {

/// Opens the null device as every standard stream that is closed. Otherwise, the first file that the program opens
/// would take its place, and get what the program prints. Must be the first call of the program.
void open_closed_streams();

/// Makes threads of OpenMP that wait for each other sleep after 1000 spins instead of 300,000, libgomp's default. If
/// other processes want the same cores, threads that spin for long take the time of the thread for which they wait.
///
/// libgomp reads the number from the environment before main() begins, so the program starts itself once more with the
/// same arguments and process number. If the environment chooses a way of waiting already, another OpenMP than libgomp
/// is used, or the program cannot start itself, nothing changes.
void shorten_openmp_waits(char* const* arguments);

/// From now on, a program that dies inside of a hook of a plugin says so on standard error, with plugin and hook:
/// - by a signal such as SIGSEGV or SIGABRT (abort(), std::terminate()). The signal then acts as before, and the core
///   dump shows the fault;
/// - by exit() or quick_exit(). The exit code is then never 0.
/// A handler that exists, such as a sanitizer's, stays. _exit() cannot be noticed.
void name_hooks_at_death();

}  // namespace strata::host
