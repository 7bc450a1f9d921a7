#pragma once

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

/// The programs without micro-batches that are superfluous in all of them.
[[nodiscard]] std::vector<Program> shortened(const std::vector<Program>& programs);

/// Gives `programs` the instructions of their shortened copies, which a pass has changed.
void take_tasks(std::vector<Program>& programs, std::vector<Program> shorter);

}  // namespace strata::host
