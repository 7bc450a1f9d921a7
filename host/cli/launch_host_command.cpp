#include "cli/launch_host_command.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launch/host_agent.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

Descriptor copy_of(int number) {
  Descriptor copy(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!copy.is_open()) throw RuntimeError(std::string("no standard input or output: ") + std::strerror(errno));
  return copy;
}

/// The frames take standard input and output. What else is printed goes to standard error.
FrameChannel take_standard_streams() {
  FrameChannel channel(copy_of(STDIN_FILENO), copy_of(STDOUT_FILENO));
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nothing.number(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return channel;
}

}  // namespace

bool wants_host_agent(int argument_count, const char* const* arguments) {
  return argument_count == 2 && std::strcmp(arguments[1], kHostAgentCommand) == 0;
}

int serve_launcher() {
  FrameChannel channel = take_standard_streams();
  return run_host_agent(channel);
}

}  // namespace strata::host
