#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/kernel_points.hpp"
#include "cluster/cluster.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/stack.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// The element types in which a sample model computes.
struct SamplePrecision {
  /// Such as "bf16".
  std::string name;
  /// What makes the model, which is of f32, compute so.
  std::vector<NamedStrategy> strategies = {};
};

/// What is measured, and how long.
struct CalibrationSettings {
  /// Name of the cluster and of its device.
  std::string name;
  /// Time for all measurements together. Those of `runs` take theirs in any case.
  double seconds = 120;
  /// Told before each measurement: what share is done, and what is next.
  std::function<void(double share, const std::string& text)> progress = {};
  /// Ops, optimizer and precisions of the sample models. Precisions that the device does not support are left out.
  const OpRegistry* ops = nullptr;
  OptimizerSettings optimizer = {};
  std::vector<SamplePrecision> precisions = {{"f32"}};
  /// Runs whose kernels are timed. Empty: those of sample models are, in growing sizes and in each precision.
  std::vector<const RunSetup*> runs = {};
  /// Stands for the data of the runs.
  std::optional<std::int64_t> vocab = {};
};

/// Measures the machine: products, memory, copies, collectives and messages, and kernels, each alone and while other
/// ranks are busy. Result: a cluster of one node.
[[nodiscard]] Cluster calibrate(const CalibratedMachine& machine, const CalibrationSettings& settings);

}  // namespace strata::host
