#include "cli/closed_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace strata::host {

void open_closed_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() takes the lowest free number, which is this one.
    if (::fcntl(descriptor, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

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
