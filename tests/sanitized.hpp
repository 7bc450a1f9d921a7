#pragma once

namespace strata::testing {

/// A sanitized build runs an eighth as fast, and looks for other mistakes than wrong numbers: tests that repeat
/// themselves repeat themselves less there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace strata::testing
