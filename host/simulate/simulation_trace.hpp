#pragma once

#include <string>

#include "simulate/simulation.hpp"

namespace strata::host {

/// The recorded work of a simulation in Chrome's Trace Event Format, which Perfetto opens. Each class of ranks is a
/// process, each stream a thread.
[[nodiscard]] std::string simulation_trace(const Simulation& simulation);

}  // namespace strata::host
