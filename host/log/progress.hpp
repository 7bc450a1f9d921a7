#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "log/training_record.hpp"

namespace strata::host {

/// Prints the progress of a run: one line that is rewritten on a terminal, or a plain line every few steps elsewhere.
class Progress {
 public:
  struct Style {
    bool terminal = false;
    /// Steps between plain lines.
    std::int64_t every = 10;
    /// What the loss sums over, in the singular.
    std::string unit = "token";
  };

  Progress(std::ostream& stream, Style style, std::uint64_t first_step, std::uint64_t steps);
  /// Ends an open line on the terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  /// Prints another line of text.
  void note(const std::string& text);

 private:
  [[nodiscard]] std::string line(const StepRecord& record) const;

  std::ostream& stream_;
  Style style_;
  std::uint64_t first_step_;
  std::uint64_t steps_;
  double seconds_ = 0;
  /// The line on the terminal that will be rewritten.
  std::string open_line_;
};

}  // namespace strata::host
