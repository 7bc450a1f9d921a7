#pragma once

#include <string>

namespace strata::host {

/// The current time as in "2026-11-25T19:02:03.456Z".
[[nodiscard]] std::string utc_time();

}  // namespace strata::host
