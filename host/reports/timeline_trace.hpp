#pragma once

#include <string>

#include "reports/timeline.hpp"

namespace strata::host {

/// The timeline in the Trace Event Format of Chrome, which Perfetto opens: a process for each stage; one unit of time
/// is a millisecond.
[[nodiscard]] std::string timeline_trace(const Timeline& timeline);

}  // namespace strata::host
