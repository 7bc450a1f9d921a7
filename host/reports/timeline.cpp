#include "reports/timeline.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class TimelineRun {
  /// Of a task.
  struct End {
    double time;
    std::size_t stage;
  };

 public:
  TimelineRun(const std::vector<std::vector<TimedTask>>& work, const WorkDependencies& dependencies)
      : work_(work), dependencies_(dependencies), next_(work.size(), 0), free_(work.size(), 0.0) {
    timeline_.stages.resize(work.size());
  }

  Timeline run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t stage = 0; stage < work_.size(); ++stage) {
        while (start_next(stage)) progress = true;
      }
    }
    check_finished();
    return std::move(timeline_);
  }

 private:
  /// The time at which all dependencies of `task` are done. Empty if one has not run yet.
  [[nodiscard]] std::optional<double> ready(const ScheduledTask& task) const {
    double latest = 0;
    const auto needed = dependencies_.find({task.phase, task.chunk});
    if (needed == dependencies_.end()) return latest;
    for (const ChunkPhase& each : needed->second) {
      const auto end = ends_.find({each, task.micro_batch});
      if (end == ends_.end()) return std::nullopt;
      latest = std::max(latest, end->second.time);
    }
    return latest;
  }

  bool start_next(std::size_t stage) {
    if (next_[stage] == work_[stage].size()) return false;
    const auto& [task, duration, communication] = work_[stage][next_[stage]];
    const std::optional<double> results = ready(task);
    if (!results) return false;
    const double begin = std::max(free_[stage], *results);
    const double end = begin + duration;
    if (!ends_.try_emplace({{task.phase, task.chunk}, task.micro_batch}, End{end, stage}).second) {
      throw VerificationError("the schedule of stage " + std::to_string(stage) + " does " + to_string(task) + " again");
    }
    StageTimeline& line = timeline_.stages[stage];
    line.events.push_back({task, begin, end, communication});
    add_messages(stage, task, begin);
    line.busy += duration;
    timeline_.makespan = std::max(timeline_.makespan, end);
    free_[stage] = end;
    ++next_[stage];
    return true;
  }

  /// The messages for `task`, whose dependencies have all run.
  void add_messages(std::size_t stage, const ScheduledTask& task, double begin) {
    const auto needed = dependencies_.find({task.phase, task.chunk});
    if (needed == dependencies_.end()) return;
    for (const ChunkPhase& each : needed->second) {
      const End& end = ends_.at({each, task.micro_batch});
      if (end.stage != stage) timeline_.messages.push_back({end.stage, stage, end.time, begin, task.micro_batch});
    }
  }

  void check_finished() const {
    for (std::size_t stage = 0; stage < work_.size(); ++stage) {
      if (next_[stage] == work_[stage].size()) continue;
      throw VerificationError("the schedule cannot end: stage " + std::to_string(stage) + " waits for ever with " +
                              to_string(work_[stage][next_[stage]].task));
    }
  }

  const std::vector<std::vector<TimedTask>>& work_;
  const WorkDependencies& dependencies_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::map<std::pair<ChunkPhase, int>, End> ends_;
  Timeline timeline_;
};

/// Largest number of finished forward passes whose micro-batch has more work on the chunk: of phase `last`, or of any
/// phase if that is empty.
int most_open(const std::vector<TimelineEvent>& events, std::optional<Phase> last) {
  std::map<std::pair<int, int>, std::size_t> closing;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const ScheduledTask& task = events[i].task;
    if (!last || task.phase == *last) closing[{task.chunk, task.micro_batch}] = i;
  }
  int open = 0;
  int most = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const ScheduledTask& task = events[i].task;
    if (task.phase == Phase::forward) most = std::max(most, ++open);
    const auto closes = closing.find({task.chunk, task.micro_batch});
    if (closes != closing.end() && closes->second == i) --open;
  }
  return most;
}

using nlohmann::ordered_json;

/// The format's unit is a microsecond.
constexpr double kMicrosecondsOfUnit = 1000;

/// Name of a task, such as "F 3". Perfetto gives names that differ only in a number the same colour.
std::string event_name(const ScheduledTask& task) {
  return std::string(to_string(task.phase)) + " " + std::to_string(task.micro_batch);
}

ordered_json metadata(std::size_t stage, const char* name, ordered_json arguments) {
  return {{"ph", "M"}, {"name", name}, {"pid", stage}, {"tid", 0}, {"args", std::move(arguments)}};
}

ordered_json complete_event(std::size_t stage, const TimelineEvent& event) {
  return {{"ph", "X"},
          {"name", event_name(event.task)},
          {"cat", "task"},
          {"pid", stage},
          {"tid", 0},
          {"ts", event.begin * kMicrosecondsOfUnit},
          {"dur", (event.end - event.begin) * kMicrosecondsOfUnit},
          {"args", {{"micro_batch", event.task.micro_batch}, {"chunk", event.task.chunk}}}};
}

}  // namespace

void StageTimeline::count_micro_batches() {
  in_flight = most_open(events, Phase::backward);
  kept = most_open(events, std::nullopt);
}

double Timeline::bubble_fraction() const {
  double busy = 0;
  for (const StageTimeline& stage : stages) busy += stage.busy;
  return busy == 0 ? 0 : (makespan * static_cast<double>(stages.size()) - busy) / busy;
}

Timeline simulate_timeline(const std::vector<std::vector<TimedTask>>& stages, const WorkDependencies& dependencies) {
  Timeline timeline = TimelineRun(stages, dependencies).run();
  for (StageTimeline& stage : timeline.stages) {
    stage.count_micro_batches();
  }
  return timeline;
}

std::string timeline_trace(const Timeline& timeline) {
  ordered_json events = ordered_json::array();
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    events.push_back(metadata(stage, "process_name", {{"name", "stage " + std::to_string(stage)}}));
    events.push_back(metadata(stage, "process_sort_index", {{"sort_index", stage}}));
    for (const TimelineEvent& event : timeline.stages[stage].events) events.push_back(complete_event(stage, event));
  }
  return json_text(ordered_json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}, 1) + "\n";
}

}  // namespace strata::host
