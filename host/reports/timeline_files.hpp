#pragma once

#include <string>

#include "reports/timeline.hpp"

namespace strata::host {

/// \file
/// The timeline as a file for other programs.

/// The timeline as a standalone SVG picture for light and dark backgrounds, of bounded width. Each stage is a row, and
/// each task is a box with its phase and the number of its micro-batch if there is room. Phases differ in colour and in
/// hatching. Lines between rows are messages, and a dark edge is communication within a task. Below `title` are the
/// bubble fraction and a legend.
[[nodiscard]] std::string timeline_svg(const Timeline& timeline, const std::string& title);

/// The timeline in Chrome's Trace Event Format, which Perfetto opens. Each stage is a process. One unit of time is a
/// millisecond.
[[nodiscard]] std::string timeline_trace(const Timeline& timeline);

}  // namespace strata::host
