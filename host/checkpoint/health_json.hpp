#pragma once

#include <nlohmann/json.hpp>

#include "files/json_value.hpp"
#include "log/health_state.hpp"

namespace strata::host {

/// The state of the rules of [health] in a manifest.
[[nodiscard]] nlohmann::json health_json(const HealthState& state);

/// \throws ConfigurationError if health_json() cannot have written the value.
[[nodiscard]] HealthState health_from_json(const JsonValue& value);

}  // namespace strata::host
