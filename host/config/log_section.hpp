#pragma once

#include <cstdint>
#include <string>

#include "strata/options.hpp"

namespace strata::host {

struct SectionDeclaration;

/// Which parameters have one gradient norm together in the logs.
enum class NormGroups : std::uint8_t {
  automatic,       ///< those of a layer if TensorBoard files are written, else none
  none,            ///< the global norm only
  layer,           ///< those of a layer, by their names
  optimizer_group  ///< those of an [[optimizer.group]]
};

/// What a run writes about its steps, besides the log of --log-json.
struct LogSection {
  bool tensorboard = false;
  NormGroups norm_groups = NormGroups::automatic;
  /// Rate of matrix products of one rank's device, in 10^12 FLOP/s. 0: measured.
  double peak_tflops = 0;
  /// Files that monitoring reads. Empty: none.
  std::string metrics = {};
  std::string heartbeat = {};

  /// The groups, never automatic.
  [[nodiscard]] NormGroups chosen_groups() const;
  bool operator==(const LogSection&) const = default;
};

/// The keys of [log].
SectionDeclaration log_declaration();

LogSection log_section(const Options& options);
Options to_options(const LogSection& section);

}  // namespace strata::host
