#include "cli/closed_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace strata::host {

void flush_results(CommandContext& context) {
  errno = 0;
  if (context.out.flush() || errno != EPIPE) return;
  context.log.warning("standard output was closed before the results were written");
  // What is still buffered goes nowhere.
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nothing, STDOUT_FILENO);
  ::close(nothing);
  context.out.clear();
}

}  // namespace strata::host
