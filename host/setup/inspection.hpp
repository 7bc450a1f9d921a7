#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "setup/run_setup.hpp"
#include "setup/training_programs.hpp"
#include "strata/device.hpp"

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
/// faulty setting.
[[nodiscard]] Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry);

/// Why the run cannot work although it compiles: mismatched or deadlocking communication, or too little memory. Empty
/// if no fault was found.
[[nodiscard]] std::optional<std::string> find_fault(const Inspection& inspection);

/// Connects the ranks of one process to the communicator as the start of training does, in a world of these ranks
/// alone, because a connection of all ranks could wait for other processes. Does nothing if the communicator refuses
/// such a world. \throws what the communicator throws, for example a ConfigurationError if it does not work with the
/// device.
void require_connection(const Inspection& inspection);

}  // namespace strata::host
