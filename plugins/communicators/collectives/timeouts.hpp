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

[[nodiscard]] inline OptionSpecification timeout_option() {
  return option::with_role(
      OptionRole::timeout,
      option::number("timeout", Timeouts{}.communication, 0.01, 86400,
                     "Seconds that a rank waits for its peers in a communication before it gives up."));
}

[[nodiscard]] inline OptionSpecification start_timeout_option() {
  return option::number("start_timeout", Timeouts{}.start, 0.01, 86400,
                        "Seconds in which the processes of all ranks must have come together.");
}

/// The values of both options.
[[nodiscard]] inline Timeouts read_timeouts(const Options& options) {
  return {options.number("timeout"), options.number("start_timeout")};
}

}  // namespace strata::communicators
