#pragma once

#include <nlohmann/json.hpp>
#include <ostream>

namespace strata::host {

/// Prints the result of a command. Text of a plugin or a file need not be UTF-8: its other bytes become U+FFFD.
inline void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace strata::host
