#pragma once

#include "strata/options.hpp"

namespace strata::communicators {

/// Seconds that ranks wait for each other.
struct Timeouts {
  /// In one communication.
  double communication = 300;
  /// At the start, when processes connect.
  double start = 300;
};

/// The option 'timeout'.
[[nodiscard]] OptionSpecification timeout_option();
/// The option 'start_timeout'.
[[nodiscard]] OptionSpecification start_timeout_option();
/// The values of both options.
[[nodiscard]] Timeouts read_timeouts(const Options& options);

}  // namespace strata::communicators
