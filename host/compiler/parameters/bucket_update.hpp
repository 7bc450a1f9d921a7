#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/placement/placed_model.hpp"
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
  /// The factor of the gradient, which is not finite if the step is skipped.
  BufferId scale = -1;
};

/// The instructions by which an optimizer updates this rank's piece of a bucket.
struct BucketInstructions {
  /// Before and after the function on whole parameters. Without one, all are in `after`.
  std::vector<Instruction> before;
  std::vector<Instruction> after;
  std::optional<WholeRequest> whole;
};

/// Lets the optimizer of a bucket emit its update, or moves running averages. `updated`: the values, the master copy if
/// there is one, and the states, on the device. `scale`: the factor of the gradient. \throws PluginError if the
/// optimizer emits no update, or more than one.
[[nodiscard]] BucketInstructions update_bucket(const PlacedModel& model, const TrainedBucket& trained,
                                               const std::vector<BufferId>& updated, BufferId scale,
                                               ProgramBuilder& builder);

/// A bucket and the instructions of its update.
struct PendingUpdate {
  const TrainedBucket* trained = nullptr;
  BucketInstructions made;
};

/// True if the whole parameters of two updates can be exchanged together: they have equal dimensions and storage, and
/// the same optimizer changes them alike.
[[nodiscard]] bool can_exchange_together(const PlacedModel& model, const Program& program, const PendingUpdate& one,
                                         const PendingUpdate& other);

/// Number of updates that are exchanged together.
[[nodiscard]] std::int64_t updates_per_exchange(ProgramBuilder& builder, const PendingUpdate& update);

/// Emits updates with functions on whole parameters. There are at most as many as are exchanged together; ranks without
/// a parameter compute on zeros.
void emit_together(const PlacedModel& model, const std::vector<PendingUpdate*>& updates, ProgramBuilder& builder,
                   std::vector<Instruction>& instructions);

}  // namespace strata::host
