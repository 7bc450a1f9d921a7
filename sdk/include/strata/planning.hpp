#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/mesh.hpp"
#include "strata/options.hpp"
#include "strata/tensor.hpp"

/// \file
/// What strategies propose to `strata plan`, which searches for the stack that trains a model fastest on a cluster. The
/// planner knows no strategy by name: it combines proposals, compiles them and simulates their programs.

namespace strata {

/// What a strategy does for a plan. A plan has at most one proposal for each purpose. The order is the planner's first
/// choice of the mesh, outermost axis first: ranks of the last axis are neighbours.
enum class PlanPurpose : std::uint8_t {
  none,      ///< the strategy is never proposed. The planner keeps it where the configuration has it
  stages,    ///< it deals the layers to groups of ranks
  replicas,  ///< it deals the batch to ranks
  sequence,  ///< it deals the tokens of a sequence to ranks
  tensors,   ///< it splits every layer over ranks
  memory     ///< it needs no ranks and trades time for memory
};

/// What is known when a strategy is asked for proposals.
struct PlanningContext {
  /// Devices of the cluster. For PlanPurpose::replicas: those that the plan's other strategies leave, all of which a
  /// proposal takes.
  int devices = 1;
  int devices_per_node = 1;
  /// Blocks of the model, such as its embedding, its layers and its head.
  int blocks = 1;
  /// The model's dimensions, "batch" excepted.
  DimSizes sizes;
  std::int64_t global_batch = 1;
  /// For PlanPurpose::replicas: the axes of the plan's other strategies.
  std::map<Axis, PlanPurpose> axes;

  /// The size of a dimension; 1 if the model does not have it.
  [[nodiscard]] std::int64_t size(const Dim& dim) const {
    const auto found = sizes.find(dim);
    return found == sizes.end() ? 1 : found->second;
  }
};

/// One way to use a strategy.
struct PlanProposal {
  /// The options that differ from their defaults.
  std::map<std::string, OptionValue> options;
  /// The product of the sizes of the strategy's axes.
  int ranks = 1;
};

/// The divisors of `number` from 2 to `most`, ascending.
[[nodiscard]] inline std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int each = 2; each <= most && each <= number; ++each) {
    if (number % each == 0) found.push_back(each);
  }
  return found;
}

}  // namespace strata
