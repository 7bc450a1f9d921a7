#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "train/run/training_record.hpp"

namespace strata::host {

/// Shows people how a run goes: one line that is rewritten on a terminal, plain lines now and then elsewhere.
class Progress {
 public:
  struct Style {
    bool terminal = false;
    /// Steps between plain lines.
    std::int64_t every = 10;
  };

  Progress(std::ostream& stream, Style style, std::uint64_t first_step, std::uint64_t steps);
  /// Leaves the terminal on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  /// Anything else worth a line.
  void note(const std::string& text);

 private:
  [[nodiscard]] std::string line(const StepRecord& record) const;

  std::ostream& stream_;
  Style style_;
  std::uint64_t first_step_;
  std::uint64_t steps_;
  double seconds_ = 0;
  /// On the terminal and not ended by a new line.
  std::string open_line_;
};

}  // namespace strata::host
