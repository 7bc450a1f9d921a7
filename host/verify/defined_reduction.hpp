#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "verify/defined_optimizer.hpp"
#include "verify/defined_replicas.hpp"

namespace strata::host {

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

  [[nodiscard]] static double norm(const ParameterValues& gradients);

 private:
  using States = std::map<std::string, std::vector<double>>;

  const SimulatedReplicas& replicas_;
  const AssignedGroups& groups_;
  const Program& program_;
  /// By parameter.
  std::map<std::string, States> states_;
};

}  // namespace strata::host
