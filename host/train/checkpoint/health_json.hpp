#pragma once

#include <nlohmann/json.hpp>

#include "train/run/health_state.hpp"

namespace strata::host {

/// The state of the rules of [health] in a manifest.
[[nodiscard]] nlohmann::json health_json(const HealthState& state);

/// \throws RuntimeError, without a path, if health_json() cannot have written the value.
[[nodiscard]] HealthState health_from_json(const nlohmann::json& value);

}  // namespace strata::host
