#pragma once

#include <cstddef>
#include <string>

#include "files/message_text.hpp"

namespace strata::host {

/// Problems that are reported together, one line each. Many of them are counted instead of listed.
class ProblemList {
 public:
  void add(const std::string& problem) {
    if (++count_ <= kMost) text_ += "\n  " + message_text(problem, kLongest);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    return count_ <= kMost ? text_ : text_ + "\n  and " + std::to_string(count_ - kMost) + " more";
  }

 private:
  static constexpr std::size_t kMost = 30;
  /// Bytes of one. Names in files may have any length.
  static constexpr std::size_t kLongest = 240;

  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace strata::host
