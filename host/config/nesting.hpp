#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::host {

/// Open brackets and braces that a configuration may have at one place. Configurations have 2.
inline constexpr int kDeepestBrackets = 16;
/// Parts of a dotted key. Configurations have 2.
inline constexpr int kMostKeyParts = 16;

/// A place in a text; both count from 1.
struct TextPlace {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// The first place at which TOML is nested deeper than accepted. TOML++ limits brackets, but not the parts of a key,
/// and recursion over a key of 100,000 parts overflows the stack.
[[nodiscard]] std::optional<TextPlace> find_deep_nesting(std::string_view text);

}  // namespace strata::host
