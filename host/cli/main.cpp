#include <iostream>

#include "cli/command_line.hpp"

int main(int argument_count, char** arguments) {
  return strata::host::run_command_line(argument_count, arguments, std::cout, std::cerr);
}
