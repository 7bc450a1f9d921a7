#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// Bytes of a message about a file or a key. The longest that Strata writes by itself lists the options of a plugin.
inline constexpr std::size_t kLongestErrorText = 4096;

/// `text`, which may quote what anyone wrote, in a form that a terminal prints as it is. Control characters other than
/// ends of lines and tabs, and bytes that are not UTF-8, become \x1b and the like. If the result has more than `most`
/// bytes, its middle is left out: the end of a message says what is accepted.
[[nodiscard]] std::string message_text(std::string_view text, std::size_t most = std::string::npos);

/// "; did you mean 'train'?", with the candidate that is nearest to `word`. Empty if none is near.
[[nodiscard]] std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

/// True if `text` is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace strata::host
