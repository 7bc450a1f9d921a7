#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "runtime/executor.hpp"

namespace strata::host {

/// Whole parameters by name.
using ParameterValues = std::map<std::string, std::vector<double>>;

/// Copies a whole buffer of a single rank from or to its program, and converts between its type and f64.
[[nodiscard]] std::vector<double> read_values(Executor& executor, BufferId id);
void write_values(Executor& executor, BufferId id, const std::vector<double>& values);

/// The gradients of all updated parameters after a step of a single rank: sums over the tokens.
[[nodiscard]] ParameterValues read_gradients(Executor& executor);

/// True for a parameter that optimizers update.
[[nodiscard]] bool is_updated(const StoredParameter& parameter);

/// Updates the parameters of a single rank by the definitions of the optimizers (Optimizer::define), in f64. Its
/// program is compiled with OptimizerSettings::is_update_outside.
class DefinedOptimizer {
 public:
  /// `settings` and `groups` outlive the object.
  DefinedOptimizer(const OptimizerSettings& settings, const AssignedGroups& groups)
      : settings_(settings), groups_(groups) {}

  /// Updates all trained parameters of `program`. `gradients`: by parameter, scaled and clipped by their norm.
  /// `values`: by parameter, in f64 whatever the program's type.
  void update(const Program& program, const ParameterValues& gradients, const StepContext& context,
              ParameterValues& values);

 private:
  void update(const Program& program, const StoredParameter& parameter, std::vector<double> gradient,
              const StepContext& context, std::vector<double>& values);

  const OptimizerSettings& settings_;
  const AssignedGroups& groups_;
  /// By parameter, then by name.
  std::map<std::string, std::map<std::string, std::vector<double>>> states_;
};

}  // namespace strata::host
