#pragma once

namespace strata::host {

/// Makes threads of OpenMP that wait for each other sleep after 1000 spins instead of 300,000, libgomp's default. If
/// other processes want the same cores, threads that spin for long take the time of the thread for which they wait.
///
/// libgomp reads the number from the environment before main() begins, so the program starts itself once more with the
/// same arguments and process number. If the environment chooses a way of waiting already, another OpenMP than libgomp
/// is used, or the program cannot start itself, nothing changes.
void shorten_openmp_waits(char* const* arguments);

}  // namespace strata::host
