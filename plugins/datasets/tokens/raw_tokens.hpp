#pragma once

#include "token_file.hpp"

namespace datasets {

/// Looks at the beginning of a file without a header, which is to contain raw tokens of `type`. \throws
/// ConfigurationError that names the file if it is text, has the signature of another format, or contains 32-bit
/// numbers instead of 16-bit ones.
void require_raw_tokens(const strata::DataFile& file, TokenType type);

}  // namespace datasets
