#include <cstdlib>
#include <iostream>

#include "cli/command_line.hpp"
#include "cli/process_start.hpp"
#include "launch/child_process.hpp"

int main(int argument_count, char** arguments) {
  strata::host::open_closed_streams();
  if (std::getenv("STRATA_SECRET") != nullptr) strata::host::forbid_core_dumps();
  strata::host::shorten_openmp_waits(arguments);
  strata::host::name_hooks_at_death();
  return strata::host::run_command_line(argument_count, arguments, std::cout, std::cerr);
}
