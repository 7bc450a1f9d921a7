#pragma once

#include <string>
#include <string_view>

namespace strata::host {

/// Translates a regular expression of Oniguruma's Ruby syntax, which tokenizer.json contains, to PCRE2's. The two
/// differ, for instance: `\s` is U+180E for PCRE2 only, `\w` contains marks for Oniguruma only, and `x{2}+` is
/// possessive for PCRE2 only. \throws ConfigurationError that names the construct and its position.
[[nodiscard]] std::string pcre2_syntax(std::string_view pattern);

}  // namespace strata::host
