#pragma once

#include <string>
#include <vector>

#include "reports/timeline.hpp"
#include "simulate/simulation.hpp"

namespace strata::host {

/// The recorded work of a simulation in Chrome's Trace Event Format, which Perfetto opens. Each class of ranks is a
/// process, each stream a thread.
[[nodiscard]] std::string simulation_trace(const Simulation& simulation);

/// A timeline whose unit is the mean time of a forward pass.
struct SimulatedTimeline {
  Timeline timeline;
  double unit_seconds = 1;
};

/// When each class of ranks runs the tasks of its micro-batches. Waits within a task are part of it. `programs`: those
/// of the simulation, which has recorded its work.
[[nodiscard]] SimulatedTimeline simulated_timeline(const Simulation& simulation,
                                                   const std::vector<TimedProgram>& programs);

}  // namespace strata::host
