#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {

/// Levels of objects and arrays that the JSON of a checkpoint may have. Manifests have 8.
inline constexpr int kDeepestJson = 32;

/// Parses JSON from a file that anyone may have written. `callback`: see nlohmann::json::parse(). \return a discarded
/// value if the text is no JSON. \throws RuntimeError, without a path, if values are nested deeper than kDeepestJson:
/// recursion over them overflows the stack.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text,
                                             const nlohmann::json::parser_callback_t& callback = nullptr);

/// An integer. Other numbers are refused, because converting them may overflow. \throws RuntimeError without a path.
template <class Integer>
Integer integer(const nlohmann::json& value) {
  if (!value.is_number_integer()) throw RuntimeError("has " + value.dump() + " where an integer belongs");
  const bool fits = value.is_number_unsigned() ? std::in_range<Integer>(value.get<std::uint64_t>())
                                               : std::in_range<Integer>(value.get<std::int64_t>());
  if (!fits) throw RuntimeError("has the integer " + value.dump() + ", which is out of range");
  return value.get<Integer>();
}

}  // namespace strata::host
