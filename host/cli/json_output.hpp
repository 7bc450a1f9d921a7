#pragma once

#include <nlohmann/json.hpp>
#include <ostream>

#include "files/json_text.hpp"
#include "files/message_text.hpp"

namespace strata::host {

/// Prints the result of a command. Text of a plugin or a file need not be UTF-8: its other bytes become U+FFFD.
inline void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  const std::string text = json_text(document, 2);
  // Control characters that JSON permits as they are, such as DEL, become \\u007f.
  const bool is_printable = message_text(text) == text;
  out << (is_printable ? text : document.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace)) << '\n';
}

}  // namespace strata::host
