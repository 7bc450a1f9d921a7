#pragma once

#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// A parameter of the stage and its buffer in the compute layout.
struct ParameterHome {
  const Parameter* parameter = nullptr;
  BufferId buffer = -1;
  Layout layout;
};

/// The parameters that the ranks of one stage hold, in the order of Program::parameters.
struct StoredParameters {
  std::vector<ParameterHome> homes;
  std::vector<BucketMember> members;
  /// Buckets whose gradients or values are sharded. They are made before partitioning, because each block gathers and
  /// reduces them. A bucket whose values are gathered belongs to one block.
  std::vector<Bucket> dealt;
  /// Those buckets of an evaluation pass whose values are averages.
  std::vector<Bucket> averaged = {};
};

/// The kind of the bucket that a parameter may be in. `index`: its position in Graph::parameters.
[[nodiscard]] BucketKind bucket_kind(const PlacedModel& model, std::size_t index);

/// Adds a persistent buffer and a StoredParameter for every parameter that the stage reads, and makes the sharded
/// buckets. A parameter that no stage reads belongs to the first stage, because the model and its checkpoints contain
/// it.
[[nodiscard]] StoredParameters store_parameters(const PlacedModel& model, int stage, ProgramBuilder& builder);

/// Of the training step of the same ranks.
struct TrainingParameters {
  const std::vector<StoredParameter>& parameters;
  const std::vector<Bucket>& dealt;
  /// Buckets whose values the evaluation pass does not share. Their values get memory of their own.
  const std::vector<Bucket>& averaged;
};

/// Stores the parameters of an evaluation pass that shares the values of a training step. A parameter lies at its place
/// in the training step's bucket, so a bucket has gaps if the evaluation pass lacks some of its parameters. Example:
/// training deals "last" and "aux" in one bucket, and evaluation reads "last" alone.
[[nodiscard]] StoredParameters store_parameters_beside(const PlacedModel& model, const TrainingParameters& training,
                                                       ProgramBuilder& builder);

}  // namespace strata::host
