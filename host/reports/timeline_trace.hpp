#pragma once

#include <string>

#include "reports/timeline.hpp"

namespace strata::host {

/// The timeline in Chrome's Trace Event Format, which Perfetto opens. Each stage is a process. One unit of time is a
/// millisecond.
[[nodiscard]] std::string timeline_trace(const Timeline& timeline);

}  // namespace strata::host
