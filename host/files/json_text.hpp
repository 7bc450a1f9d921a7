#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

namespace strata::host {

/// Levels of objects and arrays that the JSON of a checkpoint may have. Manifests have 8.
inline constexpr int kDeepestJson = 32;

/// Parses JSON from a file that anyone may have written. `callback`: see nlohmann::json::parse(). \return a discarded
/// value if the text is no JSON. \throws RuntimeError, without a path, if values are nested deeper than kDeepestJson:
/// recursion over them overflows the stack.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text,
                                             const nlohmann::json::parser_callback_t& callback = nullptr);

/// The text of a value; with `indent`, a line for each value in it. Bytes that are not UTF-8, as names of files may
/// have, become U+FFFD: the library would throw.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Prints the result of a command. Text of a plugin or a file need not be UTF-8: its other bytes become U+FFFD.
void write_json(std::ostream& out, const nlohmann::ordered_json& document);

}  // namespace strata::host
