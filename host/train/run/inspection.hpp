#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "train/run/run_setup.hpp"
#include "train/run/training_programs.hpp"

namespace strata::host {

/// Everything that is known of a run before it starts: what `strata check` judges and `strata explain` shows.
struct Inspection {
  RunSetup setup;
  std::int64_t vocab = 0;
  /// The first rank's; the others' are alike.
  std::unique_ptr<Device> device;
  TrainingPrograms programs;
  /// What each rank needs, and what the device offers one.
  std::vector<std::int64_t> planned_peak_bytes;
  std::int64_t device_bytes = 0;
};

/// Reads the configuration's data and compiles its programs. \throws ConfigurationError with the place in the
/// configuration.
[[nodiscard]] Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry);

/// Why the run cannot work although it compiles: communication that does not match or would deadlock, or more memory
/// than there is. Empty if nothing is known against it.
[[nodiscard]] std::optional<std::string> find_fault(const Inspection& inspection);

}  // namespace strata::host
