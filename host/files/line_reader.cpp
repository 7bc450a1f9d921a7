#include "files/line_reader.hpp"

#include <poll.h>

#include <array>
#include <cerrno>

namespace strata::host {
namespace {

/// A longer line is passed on in pieces.
constexpr std::size_t kLongestLine = 1 << 20;

}  // namespace

void LineReader::read() {
  std::array<char, 4096> buffer{};
  while (pipe_.is_open()) {
    pollfd readable{pipe_.number(), POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0) return;
    const ssize_t count = ::read(pipe_.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      pipe_.close();
      if (!open_line_.empty()) line_(open_line_);
      return;
    }
    open_line_.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = open_line_.find('\n')) != std::string::npos;) {
      line_(open_line_.substr(0, end));
      open_line_.erase(0, end + 1);
    }
    if (open_line_.size() > kLongestLine) line_(std::exchange(open_line_, ""));
  }
}

}  // namespace strata::host
