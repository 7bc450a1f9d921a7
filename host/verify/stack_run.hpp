#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/optimizer_groups.hpp"
#include "runtime/executor.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

class LossScaler;

/// Whole tensors by the name of their parameter.
using WholeTensors = std::map<std::string, std::vector<double>>;

/// The results of a few steps of a stack.
struct StackResult {
  std::vector<double> losses;          ///< mean over tokens, one per step
  std::vector<double> gradient_norms;  ///< one per step
  std::vector<double> evaluations;     ///< mean over tokens, one per evaluation; empty without an evaluation pass
  std::vector<double> metrics;         ///< sums of all metrics (Compiled::metrics) of steps and evaluations, in order

  /// Every whole parameter after the last step. Replicas along unsynchronized axes follow one another in the order of
  /// the mesh.
  WholeTensors parameters;
  /// Their moving averages, if the run keeps them.
  WholeTensors averages;
  /// Largest difference between ranks that hold the same element. 0 if replicas are bitwise equal.
  double replica_difference = 0;
  /// The first rank of this process.
  int first_rank = 0;
  std::vector<std::int64_t> planned_peak_bytes;
  std::vector<std::int64_t> arena_peak_bytes;
  /// Bytes of each rank outside of its device, planned and used. Those of other processes are left out.
  std::vector<OffloadBytes> planned_offload;
  std::vector<OffloadBytes> offload_peak;
};

/// Largest relative differences between a stack and a single rank.
struct StackDifference {
  double loss = 0;
  double gradient_norm = 0;
  double evaluation = 0;
  double metrics = 0;
  double parameter = 0;
  /// The parameter with the largest difference.
  std::string worst_parameter;
  /// Parameters that were not compared, because their true gradient is zero: an adaptive optimizer turns rounding noise
  /// into steps.
  std::vector<std::string> excluded;

  [[nodiscard]] double worst() const;
};

/// A disturbance of initial parameters, which shows how much a run amplifies rounding.
struct Disturbance {
  /// Each value is multiplied by 1 - unit or 1 + unit. 0: no disturbance.
  double unit = 0;
  /// Chooses between the two, for each element by itself.
  std::uint64_t seed = 0;
};

/// The parameters of run_stack().
struct StackSettings {
  std::uint64_t seed = 0;
  double learning_rate = 0;
  int steps = 3;
  /// The evaluation pass that was compiled beside the training step. It runs after each of the last two steps, so that
  /// a step follows an evaluation. Null: none.
  const Compiled* evaluation = nullptr;
  /// The evaluation pass that was compiled without a training step. It runs once, before the first step. Null: none.
  const Compiled* evaluation_alone = nullptr;
  /// True if evaluations read the moving averages of the weights.
  bool evaluates_average = false;
  /// Of the initial parameters.
  Disturbance disturbance = {};

  [[nodiscard]] bool evaluates_after(int step) const { return evaluation != nullptr && step + 2 >= steps; }
};

/// Runs compiled f64 programs for some steps, with one thread per rank of this process. If each rank is a process,
/// every process gets the whole result.
[[nodiscard]] StackResult run_stack(const Compiled& compiled, World& world, const MakeDevice& make_device,
                                    const StackSettings& settings, InputSource& inputs);

/// The context of a step of a verification. Weight decay differs from step to step, as a schedule's does.
[[nodiscard]] StepContext verified_step(std::uint64_t step, double learning_rate, const LossScaler& scaler);

/// Disturbs the initial parameters of a rank, and the states that begin as their values. Constants stay.
void disturb_parameters(Executor& executor, const Disturbance& disturbance);

/// Runs StackSettings::evaluation_alone once on a rank, if there is one, with initial parameters in memory of its own.
/// Rank 0 adds the mean loss over all ranks to the result.
void evaluate_alone(const StackSettings& settings, Device& device, Communicator& communicator, InputSource& inputs,
                    StackResult& result);

/// Folder of a program's offload files. Verification has no output folder, so the default is the system's temporary
/// folder.
[[nodiscard]] std::filesystem::path offload_directory(const Program& program);

/// Relative to `expected`. Infinite if either is no number.
[[nodiscard]] double relative_difference(double found, double expected);
/// The largest difference, relative to the largest expected element, because single elements may be near zero. Infinite
/// if an element is no number, or the sizes differ.
[[nodiscard]] double relative_difference(const std::vector<double>& found, const std::vector<double>& expected);

/// `graph`: the graph whose parameters are compared.
[[nodiscard]] StackDifference compare(const StackResult& stack, const StackResult& single, const Graph& graph);

/// What each rank found, by rank: its losses, norms, evaluations, tensors and peaks. Every rank makes the call. The
/// results travel over the communicator.
[[nodiscard]] std::vector<StackResult> gather_results(Communicator& communicator, Device& device,
                                                      const StackResult& own);

}  // namespace strata::host
