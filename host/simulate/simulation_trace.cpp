#include "simulate/simulation_trace.hpp"

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

}  // namespace

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
