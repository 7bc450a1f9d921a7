#pragma once

#include <string>
#include <vector>

#include "compiler/partition/partition.hpp"
#include "compiler/placement/bucket.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/placement/stored_parameters.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The instructions that complete a bucket's gradients after the last micro-batch.
struct Completion {
  std::vector<Instruction> instructions;
  /// Completed gradients of this rank's piece, which the update sums. Empty on a rank that does not update.
  std::vector<BufferId> completed;
};

/// A trained bucket with its gradients and optimizer states, at the end of a step.
struct TrainedBucket {
  Bucket bucket;
  /// Accumulated over the micro-batches of a step: gradients of the whole bucket, or with Sharding::gradients and above
  /// of this rank's piece.
  PartialGradients gradients;
  Completion completion = {};
  /// This rank's pieces of the master copy and of the optimizer states. Empty on a rank that does not update.
  std::vector<BufferId> states = {};
  /// This rank's piece of the moving average of the values; -1 without one.
  BufferId average = -1;
};

/// All trained buckets. The sharded buckets come first. Buckets of the other parameters follow in the order in which
/// the backward pass completes their gradients. For the latter, makes flat gradient buffers and turns the accumulators
/// into views of them.
///
/// A bucket is completed by reduce-scatters of whole gradients to the ranks' pieces, and then all-reduces over the
/// remaining partial axes. With ParameterStorage::single_writer, ranks send their gradients to the writer instead.
[[nodiscard]] std::vector<TrainedBucket> train_buckets(const PlacedModel& model, const StoredParameters& parameters,
                                                       const Accumulators& accumulators, const RankClass& rank_class,
                                                       ProgramBuilder& builder);

/// The dims `names` of a parameter, sharded only if `sharded` names them too.
[[nodiscard]] std::vector<ShardedDim> dims_of(const StoredParameter& parameter, const Dims& names, const Dims& sharded);

/// Adds the flat buffer of one state. \return this rank's piece.
[[nodiscard]] BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name);

/// Adds a state with its own dims, which every rank has whole, of the only parameter of a bucket.
[[nodiscard]] BufferId add_whole_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name,
                                       std::vector<ShardedDim> dims);

/// Adds the average of a trained bucket, which begins as the values and differs along unsynchronized axes as they do.
/// \return this rank's piece.
[[nodiscard]] BufferId add_average(ProgramBuilder& builder, const Bucket& bucket);

/// Staging copies on the device of offloaded buffers.
class StagedBuffers {
 public:
  struct Copy {
    BufferId home = -1;
    BufferId copy = -1;
    std::string name;

    [[nodiscard]] Instruction to_device() const { return transfer(home, copy, name + " to the device"); }
    [[nodiscard]] Instruction from_device() const { return transfer(copy, home, name + " from the device"); }
  };

  /// \return a new staging copy of `buffer`, or `buffer` itself if it is on the device.
  BufferId add(ProgramBuilder& builder, BufferId buffer);
  /// The staging copy of `buffer`, or `buffer` itself if it has none.
  [[nodiscard]] BufferId on_device(BufferId buffer) const;
  [[nodiscard]] const std::vector<Copy>& copies() const { return copies_; }

  /// Starts transfers to the device. They wait until no instruction uses the buffers `after`.
  void fetch(const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const;
  /// Starts the transfers back to the host or file.
  void store(std::vector<Instruction>& instructions) const;

 private:
  std::vector<Copy> copies_;
};

}  // namespace strata::host
