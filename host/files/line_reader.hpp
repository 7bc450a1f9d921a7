#pragma once

#include <functional>
#include <string>
#include <utility>

#include "files/descriptor.hpp"

namespace strata::host {

/// Reads lines from a pipe without waiting for them.
class LineReader {
 public:
  using Line = std::function<void(const std::string& text)>;

  LineReader(Descriptor pipe, Line line) : pipe_(std::move(pipe)), line_(std::move(line)) {}

  /// For poll(); -1 after the end.
  [[nodiscard]] int descriptor() const { return pipe_.number(); }
  /// Passes on the lines that have arrived. At the end of the pipe, text without a line break is a line as well.
  void read();

 private:
  Descriptor pipe_;
  Line line_;
  std::string open_line_;
};

}  // namespace strata::host
