#pragma once

#include <span>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// \file
/// Most of a long schedule repeats itself: after the warm-up, every round runs the same tasks for later micro-batches.
/// The phases that simulate a program look at a schedule with fewer rounds, so their time and memory do not depend on
/// the number of micro-batches.
///
/// What they find holds for the whole schedule. The runs of one micro-batch lie within few rounds, the rounds that stay
/// are at least four times as many, and a stretch of the whole schedule that is no longer than that occurs in the
/// shorter one as well, with other numbers of micro-batches. So what happens between two runs of a micro-batch, and
/// everything that depends on it, happens there too.

/// Micro-batches, at most, of a step that has no shorter schedule: the compiler takes about 10 KiB for each of a small
/// model.
inline constexpr int kMostMicroBatchesAtOnce = 1 << 16;

/// How many micro-batches can be left out of the schedules of all programs alike: a multiple of `multiple`, and 0 if a
/// schedule does not repeat itself or is short. At least two times `multiple` micro-batches stay in the rounds.
[[nodiscard]] int superfluous_micro_batches(const std::vector<const Program*>& programs, int multiple = 1);

/// The program without that many micro-batches. Those that follow have lower numbers than in `program`.
[[nodiscard]] Program shortened(const Program& program, int micro_batches);

/// As long as it lives, the programs lack the micro-batches that are superfluous in all of them. For passes that change
/// instructions, and for which a copy of the programs would be too slow.
class ShortSchedules {
 public:
  /// The programs outlive the object.
  explicit ShortSchedules(std::span<Program> programs);
  ~ShortSchedules();
  ShortSchedules(const ShortSchedules&) = delete;
  ShortSchedules& operator=(const ShortSchedules&) = delete;

 private:
  std::span<Program> programs_;
  int left_out_ = 0;
  std::vector<std::vector<TaskInstance>> whole_;  // by program; empty if nothing is left out
};

}  // namespace strata::host
