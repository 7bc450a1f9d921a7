#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "diagnosis/verdict.hpp"

namespace strata::host {

/// The verdict for people, several lines. Text of the records is made printable.
[[nodiscard]] std::string verdict_text(const RankVerdict& verdict);
/// The verdict as JSON.
[[nodiscard]] nlohmann::ordered_json verdict_json(const RankVerdict& verdict);

}  // namespace strata::host
