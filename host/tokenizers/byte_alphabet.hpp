#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata::host {

/// \file
/// The alphabet of byte-level vocabularies: GPT-2 writes each byte as one visible code point, such as "Ġ" for a space.

/// Appends the code point of each byte.
void append_byte_letters(std::string& text, std::string_view bytes);
[[nodiscard]] std::string byte_letters(std::string_view bytes);

/// The bytes that `text` stands for. Empty if it has a code point that stands for none. `text` is valid UTF-8.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view text);

/// The name of a byte in vocabularies that fall back to bytes, such as "<0x0A>".
[[nodiscard]] std::string byte_token_name(unsigned byte);
/// The byte of such a name.
[[nodiscard]] std::optional<char> byte_of_token_name(std::string_view name);

}  // namespace strata::host
