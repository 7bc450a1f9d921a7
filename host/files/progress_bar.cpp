#include "files/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace strata::host {
namespace {

constexpr double kWidth = 24;
constexpr const char* kClear = "\r\x1b[K";

}  // namespace

ProgressBar::ProgressBar(std::ostream& stream)
    : stream_(stream), is_terminal_(&stream == &std::cerr && ::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (is_open_) stream_ << '\n' << std::flush;
}

bool ProgressBar::is_due() const {
  return Clock::now() - shown_ >= (is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10));
}

void ProgressBar::show(double share, const std::string& text) {
  shown_ = Clock::now();
  if (!is_terminal_) {
    stream_ << text << '\n' << std::flush;
    return;
  }
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kWidth);
  const std::size_t all = static_cast<std::size_t>(kWidth);
  stream_ << kClear << '[' << std::string(filled, '#') << std::string(all - filled, '.') << "] " << text << std::flush;
  is_open_ = true;
}

}  // namespace strata::host
