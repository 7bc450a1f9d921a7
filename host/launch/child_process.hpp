#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "files/descriptor.hpp"

namespace strata::host {

/// A program to start: its command line with the program first, and additions to this process's environment.
struct ProgramRequest {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment = {};
  /// True if the program's standard input is a pipe from this process, and not /dev/null.
  bool has_input = false;
  /// The signal that the program gets when this process dies, or 0.
  int signal_at_parents_death = 0;
};

/// A started program, and this process's ends of the pipes of its standard streams.
struct ChildProcess {
  pid_t id = -1;
  Descriptor input;
  Descriptor output;
  Descriptor errors;
};

/// Starts a program in a process group of its own, so that signals of the terminal reach this process only. `mask`: the
/// signals that the program blocks. A program that cannot be executed ends with exit code 127. \throws RuntimeError if
/// no process can be made.
[[nodiscard]] ChildProcess start_child(const ProgramRequest& request, const sigset_t& mask);

/// Forbids core dumps of this process and of those that it starts. A process that knows the secret of a run calls it: a
/// dump would hold the secret. Debuggers may still attach.
void forbid_core_dumps();

}  // namespace strata::host
