#pragma once

#include <string>
#include <string_view>

namespace strata::rendezvous {

/// A text of a peer that may be anybody, in a form that a terminal prints as it is. Bytes that are not printable ASCII
/// become "\x1b", and what follows the first 160 bytes is left out. Example: "\x1b[2J" becomes "\\x1b[2J".
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace strata::rendezvous
