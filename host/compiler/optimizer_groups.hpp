#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loading/plugin_call.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// The state with the moving average of the weights (OptimizerSettings::average_decay).
inline constexpr const char* kAverageState = "average";

/// True for the names of states that the host keeps. No plugin may use them.
[[nodiscard]] bool is_reserved_state(const std::string& name);

/// Parameters that one optimizer updates in the same way.
struct OptimizerGroup {
  PluginOrigin origin;
  std::shared_ptr<const Optimizer> optimizer;
  /// Patterns of names, as fnmatch() understands them.
  std::vector<std::string> parameters;
  double lr_factor = 1;
  double weight_decay = 0;
  /// True if the parameters keep their initial values.
  bool frozen = false;
};

/// Which steps update nothing, besides those whose gradient norm is not finite.
enum class StepGuard : std::uint8_t {
  none,
  not_finite,  ///< those whose loss is not finite
  limits       ///< those too whose loss or gradient norm exceeds a limit that the host gives for the step
};

/// The updates of a run. The learning rate is passed in at run time.
struct OptimizerSettings {
  /// A parameter belongs to the first group that names it. The last group names all.
  std::vector<OptimizerGroup> groups;
  /// Largest global norm of the gradient; 0 disables clipping.
  double clip = 1.0;
  /// Largest magnitude of an element of the gradient after that; 0 disables it.
  double clip_value = 0;
  /// Share of the moving average of the weights that a step keeps; 0: there is no average.
  double average_decay = 0;
  StepGuard guard = StepGuard::none;
  /// Names the group of a parameter whose gradient norm is reported apart. Empty: only the global norm is.
  std::function<std::string(const std::string& parameter)> norm_group = {};
  /// True if the caller updates the parameters. The step then ends with the complete gradients, and the program reports
  /// their factor, "gradient_scale".
  bool is_update_outside = false;
};

/// The groups of OptimizerSettings::norm_group that a graph has.
struct NormGroupIndex {
  std::vector<std::string> names;
  /// Index into `names` of each trained parameter.
  std::map<std::string, std::int64_t> of_parameter;
};

/// Empty if only the global norm is reported.
[[nodiscard]] NormGroupIndex index_norm_groups(const Graph& graph, const OptimizerSettings& optimizer);

/// Index of the group of a parameter.
[[nodiscard]] int group_of(const OptimizerSettings& optimizer, const std::string& parameter);

/// Freezes the trained parameters of frozen groups.
void freeze_groups(Graph& graph, const OptimizerSettings& optimizer);

/// How one parameter is updated.
struct AssignedUpdate {
  ParameterDescription parameter;
  /// Index of its OptimizerGroup.
  int group = 0;
  /// True if the parameter has a bucket of its own.
  bool has_own_bucket = false;
  std::vector<OptimizerState> states;
};

/// The groups as one graph uses them.
struct AssignedGroups {
  /// By position in Graph::parameters.
  std::vector<AssignedUpdate> updates;
  /// Their positions by name.
  std::map<std::string, std::size_t> index;
  /// Groups that name no parameter of the graph, except the last one.
  std::vector<int> unused;

  [[nodiscard]] const AssignedUpdate& of(const std::string& parameter) const;
};

/// Assigns each parameter to its group. \throws PluginError if an optimizer refuses a parameter or names its states
/// wrongly.
[[nodiscard]] AssignedGroups assign_groups(const Graph& graph, const OpRegistry& registry,
                                           const OptimizerSettings& optimizer);

/// Describes the parameters of a graph to plugins. The graph outlives it.
class ParameterDescriptions {
 public:
  ParameterDescriptions(const Graph& graph, const OpRegistry& registry);

  [[nodiscard]] ParameterDescription operator()(const Parameter& parameter) const;

 private:
  const Graph& graph_;
  std::map<Value, int> first_block_;
  /// Dims over which the first product with a value sums.
  std::map<Value, Dims> contracted_;
};

}  // namespace strata::host
