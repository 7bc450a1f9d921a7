#include <nlohmann/json.hpp>

#include "files/json_text.hpp"
#include "reports/timeline.hpp"

namespace strata::host {
namespace {

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
