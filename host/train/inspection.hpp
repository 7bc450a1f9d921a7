#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "strata/device.hpp"
#include "train/training_programs.hpp"

namespace strata::host {

/// Everything known about a run before it starts, for `strata check` and `strata explain`.
struct Inspection {
  RunSetup setup;
  /// The device of the first rank. Other ranks have the same kind.
  std::unique_ptr<Device> device;
  TrainingPrograms programs;
  /// Planned bytes of each rank, and the bytes that the device offers to one.
  std::vector<std::int64_t> planned_peak_bytes;
  std::int64_t device_bytes = 0;
  /// Host memory of each rank through which checkpoints are written.
  std::vector<std::int64_t> planned_checkpoint_bytes;
  /// The result of find_remarks().
  std::vector<std::string> remarks;
};

/// Reads the configuration's data and compiles its programs. \throws ConfigurationError with the file and line of the
/// faulty setting. `times`: measures the phases.
[[nodiscard]] Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry,
                                 PhaseTimes* times = nullptr);

/// Why the run cannot work although it compiles: mismatched or deadlocking communication, or too little memory. Empty
/// if no fault was found.
[[nodiscard]] std::optional<std::string> find_fault(const Inspection& inspection);

/// Connects the ranks of one process to the communicator as the start of training does, in a world of these ranks
/// alone, because a connection of all ranks could wait for other processes. Does nothing if the communicator refuses
/// such a world. \throws what the communicator throws, for example a ConfigurationError if it does not work with the
/// device.
void require_connection(const Inspection& inspection);

/// A smaller size of the axis that run.shrink names.
struct ShrunkAxis {
  std::int64_t size = 0;
  int ranks = 0;
  /// The argument of --set that makes the axis so: "strategy.0.size=2".
  std::string override;
};

/// The largest size of the axis, at least run.shrink.min, with which the run needs at most `slots` ranks, divides its
/// batch, and passes every check of `strata check`. Empty if no axis may shrink or no size fits. `setup`: of the whole
/// run.
[[nodiscard]] std::optional<ShrunkAxis> find_shrunk_axis(const RunSetup& setup, int slots, PluginRegistry& registry);

}  // namespace strata::host
