#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "runtime/executor.hpp"
#include "verify/simulated_replicas.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// Whole parameters by name.
using ParameterValues = std::map<std::string, std::vector<double>>;

/// Copies a whole buffer of a single rank from or to its program, and converts between its type and f64.
[[nodiscard]] std::vector<double> read_values(Executor& executor, BufferId id);
void write_values(Executor& executor, BufferId id, const std::vector<double>& values);

/// True for a parameter that optimizers update.
[[nodiscard]] bool is_updated(const StoredParameter& parameter);

/// The definition of how a strategy sums the gradients of its workers (GradientHooks::define_gradient), for one
/// replica.
class DefinedReduction {
 public:
  /// All references outlive the object. `program`: that of the single rank, whose parameters are whole.
  DefinedReduction(const SimulatedReplicas& replicas, const AssignedGroups& groups, const Program& program)
      : replicas_(replicas), groups_(groups), program_(program) {}

  /// Sums the gradients of all updated parameters. `gradients`: by worker, sums over the worker's tokens. `unit`: the
  /// factor that makes them shares of the mean gradient, 0 without tokens. \return the mean gradient, in whose states
  /// the step ends unless its norm is not finite. \throws PluginError if the definition changes the number of elements.
  [[nodiscard]] ParameterValues run(const std::vector<ParameterValues>& gradients, double unit);

 private:
  using States = std::map<std::string, std::vector<double>>;

  const SimulatedReplicas& replicas_;
  const AssignedGroups& groups_;
  const Program& program_;
  /// By parameter.
  std::map<std::string, States> states_;
};

/// Trains as the definitions of optimizers and strategies say, on a single rank that simulates the replicas and
/// their workers one after another. `single`: the program of one rank without the strategies' axes, compiled with
/// OptimizerSettings::is_update_outside. `world`: has one rank.
[[nodiscard]] StackResult run_definition(const Compiled& single, World& world, const MakeDevice& make_device,
                                         const StackSettings& settings, const OptimizerSettings& optimizer,
                                         const SimulatedReplicas& replicas, InputSource& inputs);

}  // namespace strata::host
