#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/stack.hpp"
#include "runtime/executor.hpp"
#include "strata/dataset.hpp"
#include "strata/gradient_work.hpp"

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

}  // namespace strata::host
