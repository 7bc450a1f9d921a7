#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/stack.hpp"
#include "runtime/executor.hpp"
#include "strata/dataset.hpp"
#include "strata/gradient_work.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// The replicas along the unsynchronized axes of a stack, and the workers of each along the self-reduced axes, for a
/// single rank that simulates them one after another. A stack without such axes has one replica with one worker.
struct SimulatedReplicas {
  /// The unsynchronized axes alone, the self-reduced axes alone, and both.
  Mesh mesh;
  Mesh workers;
  Mesh parts;
  /// The strategies of the stack, and the unsynchronized axes of each.
  std::vector<NamedStrategy> strategies;
  std::vector<std::vector<Axis>> unsynchronized_of;
  /// The strategy that sums the gradients of the workers (Stack::reducer), and by parameter the pieces in which it
  /// does.
  int reducer = -1;
  std::map<std::string, std::vector<DefinedPiece>> pieces;
  /// By sample of a step: the rank in `parts` that trains on it. Empty: all samples belong to the only one.
  std::vector<int> part_of_sample;
  /// Names of the inputs that the loss sums over.
  std::set<std::string> targets;

  [[nodiscard]] int count() const { return mesh.rank_count(); }
  /// The rank in `parts` of a worker of a replica.
  [[nodiscard]] int part(int replica, int worker) const;
};

/// `compiled`: the training step of the stack. `inputs`: those of the data.
[[nodiscard]] SimulatedReplicas find_replicas(const Stack& stack, const Compiled& compiled,
                                              const std::vector<DatasetInput>& inputs);

/// A replica is defined by the whole batch, in which the samples of others have no targets. A loss or a metric that
/// reads none would count these samples nevertheless. \throws ConfigurationError if the graph has one and replicas are
/// apart.
void require_sums_of_targets(const Graph& graph, const SimulatedReplicas& replicas);

/// The inputs of one worker of one replica. Each computes the whole batch, so that random numbers are those of the
/// stack. The targets of the others are ignored, so that their sequences give neither loss nor gradient.
class ReplicaInputs final : public InputSource {
 public:
  /// Both references outlive the object.
  ReplicaInputs(InputSource& inputs, const SimulatedReplicas& replicas, int part)
      : inputs_(inputs), replicas_(replicas), part_(part) {}

  void load(const InputPart& part, std::uint64_t step) override;

 private:
  InputSource& inputs_;
  const SimulatedReplicas& replicas_;
  int part_;
};

/// Whole parameters by name.
using ParameterValues = std::map<std::string, std::vector<double>>;

/// Copies a whole buffer of a single rank from or to its program, and converts between its type and f64.
[[nodiscard]] std::vector<double> read_values(Executor& executor, BufferId id);
void write_values(Executor& executor, BufferId id, const std::vector<double>& values);

/// True for a parameter that a step changes.
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
