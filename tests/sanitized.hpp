#pragma once

namespace strata::testing {

/// True in a sanitized build. Such a build is eight times slower and looks for other errors than wrong numbers, so
/// tests run fewer repetitions there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace strata::testing
