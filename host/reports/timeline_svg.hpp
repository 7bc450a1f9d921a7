#pragma once

#include <string>

#include "reports/timeline.hpp"

namespace strata::host {

/// The timeline as a standalone SVG picture for light and dark backgrounds. Each stage is a row, and each task is a box
/// with the number of its micro-batch. Below `title` are a legend and the bubble fraction.
[[nodiscard]] std::string timeline_svg(const Timeline& timeline, const std::string& title);

}  // namespace strata::host
