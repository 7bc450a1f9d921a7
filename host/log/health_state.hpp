#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata::host {

/// A range of samples, counted over the whole run as RunState::samples.
struct SampleRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

/// The state of the rules of [health], which checkpoints contain.
struct HealthState {
  /// Losses and gradient norms of the last good steps, the newest last. Empty without rules for jumps.
  std::vector<double> losses = {};
  std::vector<double> norms = {};
  /// Steps in a row that were skipped last.
  std::int64_t skips_in_a_row = 0;
  /// Times that the run went back.
  std::int64_t rewinds = 0;
  /// Samples that the run left out by going back.
  std::vector<SampleRange> left_out = {};
  /// Step to which the run went back, if no good step has followed.
  std::optional<std::uint64_t> rewound_to = {};

  bool operator==(const HealthState&) const = default;
};

}  // namespace strata::host
