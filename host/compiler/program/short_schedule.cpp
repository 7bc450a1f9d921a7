#include "compiler/program/short_schedule.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace strata::host {
namespace {

/// Micro-batches that stay in the rounds of a schedule, at least.
constexpr int kKeptMicroBatches = 8;
/// To leave out fewer is not worth a copy of the program.
constexpr int kFewestLeftOut = 16;
/// Runs of a task after which its order must have come back. Interleaved pipelines have as many in a round as stages.
constexpr int kLongestRound = 1024;

/// Consecutive runs of a schedule: `rounds` times `length`. A round equals the one before, with the numbers of all
/// micro-batches higher by `micro_batches`.
struct Repetition {
  std::size_t begin = 0;
  std::size_t length = 0;
  int micro_batches = 0;
  std::size_t rounds = 0;
  /// Micro-batches from the lowest to the highest that one round has runs of.
  int width = 0;
};

bool follows(const TaskInstance& later, const TaskInstance& earlier, int micro_batches) {
  return earlier.micro_batch >= 0 && later.task == earlier.task && later.is_last == earlier.is_last &&
         later.micro_batch == earlier.micro_batch + micro_batches;
}

class RepetitionFinder {
 public:
  explicit RepetitionFinder(const std::vector<TaskInstance>& schedule) : schedule_(schedule) {}

  std::optional<Repetition> run() const {
    const std::size_t middle = schedule_.size() / 2;
    int seen = 0;
    for (std::size_t next = middle + 1; next < schedule_.size() && seen < kLongestRound; ++next) {
      if (schedule_[next].task != schedule_[middle].task) continue;
      ++seen;
      const int micro_batches = schedule_[next].micro_batch - schedule_[middle].micro_batch;
      if (micro_batches < 1 || !repeats(middle, next - middle, micro_batches)) continue;
      const Repetition found = extended(middle, next - middle, micro_batches);
      if (leaves_no_gap(found)) return found;
      // Some tasks come in long rows of their own, as in GPipe.
      if (found.rounds * found.length > schedule_.size() / 4) break;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool repeats(std::size_t begin, std::size_t length, int micro_batches) const {
    if (begin + 2 * length > schedule_.size()) return false;
    for (std::size_t i = begin; i < begin + length; ++i) {
      if (!follows(schedule_[i + length], schedule_[i], micro_batches)) return false;
    }
    return true;
  }

  [[nodiscard]] Repetition extended(std::size_t begin, std::size_t length, int micro_batches) const {
    std::size_t end = begin + 2 * length;
    while (begin > 0 && follows(schedule_[begin - 1 + length], schedule_[begin - 1], micro_batches)) --begin;
    while (end < schedule_.size() && follows(schedule_[end], schedule_[end - length], micro_batches)) ++end;
    Repetition found{begin, length, micro_batches, (end - begin) / length, 0};
    const auto [lowest, highest] =
        std::minmax_element(at(begin), at(begin + length),
                            [](const TaskInstance& a, const TaskInstance& b) { return a.micro_batch < b.micro_batch; });
    found.width = highest->micro_batch - lowest->micro_batch + 1;
    return found;
  }

  /// True if without a round every task has as many runs less, and those before the rounds are for micro-batches that
  /// the rounds come to later.
  [[nodiscard]] bool leaves_no_gap(const Repetition& found) const {
    std::map<std::pair<int, int>, int> first;  // by task and remainder: the micro-batch in the first round
    const auto key = [&](const TaskInstance& each) {
      return std::pair(each.task, each.micro_batch % found.micro_batches);
    };
    const auto body = at(found.begin);
    const auto tail = at(found.begin + found.rounds * found.length);
    for (auto each = body; each != at(found.begin + found.length); ++each) {
      if (!first.try_emplace(key(*each), each->micro_batch).second) return false;
    }
    const auto is_near = [&](const TaskInstance& each, bool is_before) {
      if (each.micro_batch < 0) return true;
      const auto in_round = first.find(key(each));
      if (in_round == first.end()) return false;
      const int last = in_round->second + static_cast<int>(found.rounds - 1) * found.micro_batches;
      return is_before ? each.micro_batch < in_round->second : each.micro_batch > last;
    };
    std::set<int> tasks;
    for (const auto& [task_and_remainder, micro_batch] : first) tasks.insert(task_and_remainder.first);
    return first.size() == tasks.size() * static_cast<std::size_t>(found.micro_batches) &&
           std::all_of(schedule_.begin(), body, [&](const TaskInstance& each) { return is_near(each, true); }) &&
           std::all_of(tail, schedule_.end(), [&](const TaskInstance& each) { return is_near(each, false); });
  }

  [[nodiscard]] std::vector<TaskInstance>::const_iterator at(std::size_t index) const {
    return schedule_.begin() + static_cast<std::ptrdiff_t>(index);
  }

  const std::vector<TaskInstance>& schedule_;
};

std::vector<TaskInstance> without_rounds(const std::vector<TaskInstance>& schedule, int micro_batches) {
  const Repetition repetition = RepetitionFinder(schedule).run().value();
  const std::size_t left_out = static_cast<std::size_t>(micro_batches / repetition.micro_batches) * repetition.length;
  const std::size_t begin = repetition.begin + repetition.rounds * repetition.length / 2 - left_out / 2;
  std::vector<TaskInstance> result;
  result.reserve(schedule.size() - left_out);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (i >= begin && i < begin + left_out) continue;
    result.push_back(schedule[i]);
    if (i >= begin && schedule[i].micro_batch >= 0) result.back().micro_batch -= micro_batches;
  }
  return result;
}

}  // namespace

int superfluous_micro_batches(const std::vector<const Program*>& programs, int multiple) {
  int most = programs.empty() ? 0 : programs.front()->micro_batches;
  int kept = std::max(kKeptMicroBatches, 2 * multiple);
  std::vector<Repetition> repetitions;
  for (const Program* program : programs) {
    const std::optional<Repetition> found = RepetitionFinder(program->schedule).run();
    if (!found) return 0;
    kept = std::max(kept, 4 * found->width);
    multiple = std::lcm(multiple, found->micro_batches);
    repetitions.push_back(*found);
  }
  for (const Repetition& each : repetitions) {
    most = std::min(most, static_cast<int>(each.rounds) * each.micro_batches - kept);
  }
  return most < kFewestLeftOut ? 0 : most / multiple * multiple;
}

Program shortened(const Program& program, int micro_batches) {
  const std::vector<TaskInstance>& whole = program.schedule;
  return {.name = program.name,
          .mesh = program.mesh,
          .micro_batches = program.micro_batches - micro_batches,
          .buffers = program.buffers,
          .tasks = program.tasks,
          .schedule = micro_batches == 0 ? whole : without_rounds(whole, micro_batches),
          .parameters = program.parameters,
          .reports = program.reports,
          .offload_directory = program.offload_directory};
}

ShortSchedules::ShortSchedules(std::span<Program> programs) : programs_(programs) {
  std::vector<const Program*> pointers;
  for (const Program& program : programs) pointers.push_back(&program);
  left_out_ = superfluous_micro_batches(pointers);
  if (left_out_ == 0) return;
  for (Program& program : programs) {
    whole_.push_back(std::exchange(program.schedule, without_rounds(program.schedule, left_out_)));
    program.micro_batches -= left_out_;
  }
}

ShortSchedules::~ShortSchedules() {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    programs_[i].schedule = std::move(whole_[i]);
    programs_[i].micro_batches += left_out_;
  }
}

}  // namespace strata::host
