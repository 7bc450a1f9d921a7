#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "simulate/instruction_times.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// How the compute streams of all ranks spend a step, in seconds of an average rank. The parts add up to the step.
struct TimeShares {
  double products = 0;   ///< matrix products
  double attention = 0;  ///< ops that mix the positions of a sequence
  double memory = 0;     ///< all other ops, copies and inputs
  double launch = 0;     ///< waits for the host, which launches kernels more slowly than the device runs them
  double exposed = 0;    ///< waits for data on the network
  double transfer = 0;   ///< waits for copies between device and host memory
  double idle = 0;       ///< waits for other ranks
};

/// A training step on a cluster, as the simulator sees it.
struct StepPrediction {
  /// Time of a step, averaged over the variants of the step.
  double seconds = 0;
  /// Elements that the loss sums over in a step, such as tokens.
  double tokens = 0;
  double tokens_per_second = 0;
  /// FLOPs of the model's products (model_flops) and of all executed ops, over what the devices could do in the time.
  double model_flops_utilization = 0;
  double hardware_flops_utilization = 0;
  /// All ranks of the run, which share the host memory of the nodes.
  int ranks = 0;
  /// Planned memory of the fullest rank.
  std::int64_t peak_bytes = 0;
  std::map<BufferKind, std::int64_t> bytes_at_peak;
  /// Planned host memory of the rank that offloads most.
  std::int64_t offloaded_bytes = 0;
  /// Planned memory of the fullest rank of each stage.
  std::vector<std::int64_t> stage_bytes;
  /// Time in which ranks wait for other ranks, over the rest of the step.
  double bubble = 0;
  /// Time in which an average rank waits for data on the network, by axis. The axes of a collective over several are
  /// joined, as in "dp+cp".
  std::map<std::string, double> exposed_seconds;
  TimeShares shares;
  /// The largest of the shares in words, such as "products" or "communication over tp".
  std::string bound;

  /// Bytes that are too many: of the fullest rank for its device, or of the rank that offloads most for its share of a
  /// node's host memory. The larger of the two; 0: both fit.
  [[nodiscard]] std::int64_t excess_bytes(const Device& device, const Cluster& cluster) const;
};

/// Predicts the training step of `compiled` on the cluster's first devices. \throws ConfigurationError if the cluster
/// has too few devices, or lacks a value that a prediction needs.
[[nodiscard]] StepPrediction simulate_step(const Compiled& compiled, const OpRegistry& registry,
                                           const Cluster& cluster);
/// The same with the times of time_programs(), which do not depend on the order of the tasks.
[[nodiscard]] StepPrediction simulate_step(const Compiled& compiled, const TimedPrograms& timed,
                                           const OpRegistry& registry, const Cluster& cluster);

/// The prediction for a model with `steps` more of what `more` has more than `less`, such as layers.
[[nodiscard]] StepPrediction extrapolate(const StepPrediction& less, const StepPrediction& more, int steps);

/// Kernels whose times vary.
struct KernelSpread {
  /// Standard deviation of a kernel's time, as a share of it.
  double share = 0;
  /// Steps that are simulated, each with draws of its own.
  int repeats = 100;
};

/// Step times if the times of kernels vary (SimulationSettings::spread), in ascending order. Always the same ones.
[[nodiscard]] std::vector<double> simulate_spread(const Compiled& compiled, const OpRegistry& registry,
                                                  const Cluster& cluster, const KernelSpread& spread);

}  // namespace strata::host
