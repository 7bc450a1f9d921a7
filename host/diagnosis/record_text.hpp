#pragma once

#include <string>
#include <string_view>

#include "runtime/flight_record.hpp"

namespace strata::host {

/// The JSON of a rank's record, which `strata diagnose` reads.
[[nodiscard]] std::string to_json_text(const FlightRecord& record);

/// Reads such JSON, from a file that anyone may have written. \throws RuntimeError, without a path, that says what is
/// wrong.
[[nodiscard]] FlightRecord parse_record(std::string_view text);

}  // namespace strata::host
