#include <iostream>

#include "cli/closed_output.hpp"
#include "cli/command_line.hpp"
#include "cli/hook_deaths.hpp"
#include "cli/openmp_waits.hpp"

int main(int argument_count, char** arguments) {
  strata::host::open_closed_streams();
  strata::host::shorten_openmp_waits(arguments);
  strata::host::name_hooks_at_death();
  return strata::host::run_command_line(argument_count, arguments, std::cout, std::cerr);
}
