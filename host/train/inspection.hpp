#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "strata/device.hpp"
#include "train/training_programs.hpp"

namespace strata::host {

/// Everything known about a run before it starts, for `strata check` and `strata explain`.
struct Inspection {
  RunSetup setup;
  /// The machines that the run is meant for. Empty: this one.
  std::optional<Cluster> cluster;
  /// The device of the first rank. Other ranks have the same kind. With a cluster it is only described.
  std::unique_ptr<Device> device;
  TrainingPrograms programs;
  /// Planned bytes of each rank, and the bytes that the device offers to one; of several kinds the least.
  std::vector<std::int64_t> planned_peak_bytes;
  std::int64_t device_bytes = 0;
  /// Host memory of each rank through which checkpoints are written.
  std::vector<std::int64_t> planned_checkpoint_bytes;
  /// The result of find_remarks().
  std::vector<std::string> remarks;

  /// The device in words.
  [[nodiscard]] std::string device_text() const;
};

/// What takes the place of this machine and of the run's data.
struct InspectionTarget {
  /// The machines that the run is meant for. Their devices need not be here, and neither need the plugins of device and
  /// communicator. Empty: this machine.
  std::optional<Cluster> cluster = {};
  /// Size of the dimensions that the data's values index, such as "vocab". The data is then not opened. Empty: the data
  /// says it.
  std::optional<std::int64_t> vocab = {};
};

/// Reads the configuration's data and compiles its programs. \throws ConfigurationError with the file and line of the
/// faulty setting, also if the cluster has fewer devices than the run has ranks. `times`: measures the phases.
[[nodiscard]] Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry,
                                 const InspectionTarget& target = {}, PhaseTimes* times = nullptr);

/// Sets the mode in which the run writes checkpoints, and plans their copies for it.
void plan_copies(Inspection& inspection, CheckpointMode mode);

/// Why the run cannot work although it compiles: mismatched or deadlocking communication, or too little memory. Empty
/// if no fault was found.
[[nodiscard]] std::optional<std::string> find_fault(const Inspection& inspection);

/// Connects the ranks of one process to the communicator as the start of training does, in a world of these ranks
/// alone, because a connection of all ranks could wait for other processes. Does nothing if the communicator refuses
/// such a world, or if the run is meant for other machines. \throws what the communicator throws, for example a
/// ConfigurationError if it does not work with the device.
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
