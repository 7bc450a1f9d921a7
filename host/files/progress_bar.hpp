#pragma once

#include <chrono>
#include <ostream>
#include <string>

namespace strata::host {

/// A bar that is rewritten on a terminal, or a plain line every ten seconds elsewhere.
class ProgressBar {
 public:
  /// `stream`: the messages of a command.
  explicit ProgressBar(std::ostream& stream);
  /// Ends an open bar on the terminal.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// True if it is time to show progress again.
  [[nodiscard]] bool is_due() const;
  /// `share`: what is done, from 0 to 1. `text`: stands behind the bar.
  void show(double share, const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  std::ostream& stream_;
  bool is_terminal_;
  bool is_open_ = false;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace strata::host
