#pragma once

#include <ostream>
#include <string>

#include "files/message_text.hpp"

namespace strata::host {

/// Prints an error, which may quote a file or another process. The line is written at once: a launcher merges what
/// several ranks write, and must not mix their lines.
inline void print_error(std::ostream& messages, const std::string& text) {
  constexpr std::size_t kLongest = std::size_t{64} << 10U;
  messages << "error: " + message_text(text, kLongest) + "\n";
}

}  // namespace strata::host
