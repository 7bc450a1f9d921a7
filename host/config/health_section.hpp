#pragma once

#include <cstdint>
#include <string>

#include "strata/options.hpp"

namespace strata::host {

struct RunConfiguration;
struct SectionDeclaration;

/// What a run does about a bad step.
enum class HealthAction : std::uint8_t {
  stop,   ///< ends the run
  skip,   ///< leaves out the update
  rewind  ///< goes back to a checkpoint and leaves out the data
};

/// Its word in a configuration.
[[nodiscard]] std::string action_word(HealthAction action);

/// Rules for steps whose loss or gradient norm cannot be right.
struct HealthSection {
  HealthAction not_finite = HealthAction::stop;
  HealthAction jump = HealthAction::stop;
  /// Factors of the median beyond which loss and gradient norm jump. 0: never.
  double loss_jump = 0;
  double norm_jump = 0;
  /// Good steps of which the medians are.
  std::int64_t window = 0;
  /// Steps in a row that are skipped before the run ends.
  std::int64_t max_skips = 0;
  /// Times that the run goes back before it ends.
  std::int64_t max_rewinds = 0;

  [[nodiscard]] bool finds_jumps() const { return loss_jump > 0 || norm_jump > 0; }
  /// True if a bad step of some kind is answered by `action`.
  [[nodiscard]] bool uses(HealthAction action) const {
    return not_finite == action || (finds_jumps() && jump == action);
  }
  bool operator==(const HealthSection&) const = default;
};

/// The keys of [health].
SectionDeclaration health_declaration();

HealthSection health_section(const Options& options);
Options to_options(const HealthSection& section);

/// Checks conditions between the keys of [health] and others. \throws ConfigurationError with file and line.
void check_health(const RunConfiguration& configuration);

}  // namespace strata::host
