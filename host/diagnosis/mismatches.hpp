#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/flight_record.hpp"

namespace strata::host {

/// The first communication of each group that its members did not issue alike: another kind, id or size. One sentence
/// each.
[[nodiscard]] std::vector<std::string> find_mismatches(const std::map<int, FlightRecord>& records);

}  // namespace strata::host
