#include "simulate/simulation_trace.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/json.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// The format's unit is a microsecond.
constexpr double kMicroseconds = 1e6;
constexpr std::array kStreams{"compute", "communication", "transfer"};

ordered_json metadata(std::size_t process, std::size_t thread, const char* kind, const std::string& name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

ordered_json event(const SimulatedWork& work) {
  return {{"ph", "X"},
          {"name", work.name},
          {"pid", work.program},
          {"tid", static_cast<int>(work.stream)},
          {"ts", work.begin * kMicroseconds},
          {"dur", (work.end - work.begin) * kMicroseconds},
          {"args", {{"micro_batch", work.micro_batch}}}};
}

/// Adds work of the compute stream to the runs of tasks.
void add(std::vector<TimelineEvent>& events, const ScheduledTask& task, const SimulatedWork& work) {
  if (events.empty() || !(events.back().task == task)) events.push_back({task, work.begin, work.end, {}});
  events.back().end = work.end;
}

/// Mean time from the begin to the end of a forward pass.
double mean_forward(const Timeline& timeline) {
  double sum = 0;
  double count = 0;
  for (const StageTimeline& stage : timeline.stages) {
    for (const TimelineEvent& event : stage.events) {
      if (event.task.phase != Phase::forward) continue;
      sum += event.end - event.begin;
      ++count;
    }
  }
  return sum > 0 ? sum / count : 1;
}

}  // namespace

SimulatedTimeline simulated_timeline(const Simulation& simulation, const std::vector<TimedProgram>& programs) {
  SimulatedTimeline result;
  Timeline& timeline = result.timeline;
  timeline.times_communication = true;
  timeline.stages.resize(programs.size());
  for (const SimulatedWork& work : simulation.works) {
    if (work.stream != SimulatedWork::Stream::compute) continue;
    const auto number = static_cast<std::size_t>(work.program);
    const auto at = chunk_phase(programs[number].program->tasks[static_cast<std::size_t>(work.task)]);
    if (!at) continue;
    add(timeline.stages[number].events, {at->phase, work.micro_batch, at->chunk}, work);
    timeline.stages[number].busy += work.end - work.begin;
  }
  result.unit_seconds = mean_forward(timeline);
  for (StageTimeline& stage : timeline.stages) {
    stage.count_micro_batches();
    stage.busy /= result.unit_seconds;
    for (TimelineEvent& event : stage.events) {
      event.begin /= result.unit_seconds;
      event.end /= result.unit_seconds;
      timeline.makespan = std::max(timeline.makespan, event.end);
    }
  }
  return result;
}

std::string simulation_trace(const Simulation& simulation) {
  ordered_json events = ordered_json::array();
  for (std::size_t i = 0; i < simulation.ranks.size(); ++i) {
    events.push_back(metadata(i, 0, "process_name", "class " + std::to_string(i)));
    for (std::size_t stream = 0; stream < kStreams.size(); ++stream) {
      events.push_back(metadata(i, stream, "thread_name", kStreams[stream]));
    }
  }
  for (const SimulatedWork& work : simulation.works) events.push_back(event(work));
  return json_text(ordered_json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}) + "\n";
}

}  // namespace strata::host
