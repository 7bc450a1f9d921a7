#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::host {

/// `text`, which may quote what anyone wrote, in a form that a terminal prints as it is. Control characters other than
/// ends of lines and tabs, and bytes that are not UTF-8, become \x1b and the like. If the result has more than `most`
/// bytes, its middle is left out: the end of a message says what is accepted.
[[nodiscard]] std::string message_text(std::string_view text, std::size_t most = std::string::npos);

/// True if `text` is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace strata::host
