#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "runtime/executor.hpp"

namespace strata::host {

/// Updates the parameters of a single rank by the definitions of the optimizers (Optimizer::define), in f64. Its
/// program is compiled with OptimizerSettings::is_update_outside.
class DefinedOptimizer {
 public:
  /// `settings` and `groups` outlive the object.
  DefinedOptimizer(const OptimizerSettings& settings, const AssignedGroups& groups)
      : settings_(settings), groups_(groups) {}

  /// Updates all trained parameters after a step. A gradient that is not finite changes nothing.
  void update(Executor& executor, const Reports& reports, const StepContext& context);

 private:
  void update(Executor& executor, const StoredParameter& parameter, double scale, const StepContext& context);

  const OptimizerSettings& settings_;
  const AssignedGroups& groups_;
  /// By parameter, then by name.
  std::map<std::string, std::map<std::string, std::vector<double>>> states_;
};

}  // namespace strata::host
