#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/parameters/step_end.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/optimizer.hpp"

namespace strata::host {

/// A function that an optimizer applies to a whole parameter.
struct WholeRequest {
  /// This rank's piece of the direction, and of the result. Neither has memory yet.
  BufferId direction = -1;
  BufferId result = -1;
  /// Dimensions that may stay sharded.
  Dims apart;
  WholeFunction function;
};

/// The instructions by which an optimizer updates this rank's piece of a bucket.
struct BucketInstructions {
  /// Before and after the function on whole parameters. Without one, all are in `after`.
  std::vector<Instruction> before;
  std::vector<Instruction> after;
  std::optional<WholeRequest> whole;
};

/// Lets the optimizer of a bucket emit its update. `updated`: the values, the master copy if there is one, and the
/// states, on the device. `scale`: the factor of the gradient. \throws PluginError if the optimizer emits no update, or
/// more than one.
[[nodiscard]] BucketInstructions update_bucket(ProgramBuilder& builder, const TrainedBucket& trained,
                                               const std::vector<BufferId>& updated, BufferId scale,
                                               const UpdateRequest& request);

}  // namespace strata::host
