#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace strata::host {

/// Levels of objects and arrays that the JSON of a checkpoint may have. Manifests have 8.
inline constexpr int kDeepestJson = 32;

/// Parses JSON from a file that anyone may have written. \return a discarded value if the text is no JSON. \throws
/// RuntimeError, without a path, if values are nested deeper than kDeepestJson: recursion over them overflows the
/// stack.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text);

}  // namespace strata::host
