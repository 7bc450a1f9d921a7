#pragma once

#include <string>

#include "reports/timeline.hpp"

namespace strata::host {

/// The timeline as a standalone SVG picture for light and dark surroundings: a row for each stage, a box for each piece
/// of work with its micro-batch's number, a legend, and the bubble fraction under `title`.
[[nodiscard]] std::string timeline_svg(const Timeline& timeline, const std::string& title);

}  // namespace strata::host
