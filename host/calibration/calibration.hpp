#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibration/kernel_points.hpp"
#include "cluster/cluster.hpp"
#include "compiler/optimizer_groups.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// What is measured, and how long.
struct CalibrationSettings {
  /// Name of the cluster and of its device.
  std::string name;
  /// Time for all measurements together. Those of `runs` take theirs in any case.
  double seconds = 120;
  /// Told before each measurement: what share is done, and what is next.
  std::function<void(double share, const std::string& text)> progress = {};
  /// Ops and optimizer of the sample models.
  const OpRegistry* ops = nullptr;
  OptimizerSettings optimizer = {};
  /// Runs whose kernels are timed. Empty: those of sample models are, in growing sizes and in each type that the device
  /// supports.
  std::vector<const RunSetup*> runs = {};
  /// Stands for the data of the runs.
  std::optional<std::int64_t> vocab = {};
};

/// Measures the machine: products, memory, copies, collectives and messages, and kernels, each alone and while other
/// ranks are busy. Result: a cluster of one node.
[[nodiscard]] Cluster calibrate(const CalibratedMachine& machine, const CalibrationSettings& settings);

}  // namespace strata::host
