#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/partition/accumulators.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Parameters whose values, gradients and optimizer states lie side by side in flat buffers: one collective and one
/// optimizer launch for all.
struct Bucket {
  std::string name;
  /// Indices into Program::parameters, those with weight decay first, and where each begins.
  std::vector<std::size_t> parameters;
  std::vector<std::int64_t> offsets;
  /// Padded to a multiple of `pieces`.
  std::int64_t elements = 0;
  /// The first this many elements are decayed.
  std::int64_t decay_elements = 0;
  ParameterStorage storage;
  /// Ranks that the bucket is dealt to: the product of the storage axes, 1 where every rank has it whole.
  int pieces = 1;
  /// Axes that shard every parameter of the bucket in its compute layout.
  AxisSet shard_axes;
  /// Stages that hold the parameters; more than one for tied ones, whose gradients are summed over them.
  std::vector<int> stages;
  DType type = DType::f32;
  DType gradient_type = DType::f32;
  /// The whole bucket, or this rank's piece with Sharding::values.
  BufferId values = -1;
  /// This rank's pieces.
  std::vector<BufferId> states;
  /// Flat gradients that outlive a micro-batch, one for each set of axes over which contributions are partial: whole,
  /// or from Sharding::gradients on this rank's piece.
  std::vector<std::pair<AxisSet, BufferId>> gradients;
  /// What completes them once the last micro-batch has contributed, and where the complete ones are: this rank's
  /// pieces, to be added up.
  std::vector<Instruction> completion;
  std::vector<BufferId> completed;

  [[nodiscard]] std::int64_t piece_elements() const { return elements / pieces; }
  /// True where gradients are brought to their pieces in every micro-batch.
  [[nodiscard]] bool reduces_each_micro_batch() const {
    return gathers_values() || (pieces > 1 && storage.sharding >= Sharding::gradients);
  }
  /// True where blocks that use the values have them brought together: from other ranks, from outside of the device, or
  /// both.
  [[nodiscard]] bool gathers_values() const {
    return storage.sharding == Sharding::values && (pieces > 1 || storage.values_place != MemoryPlace::device);
  }
  /// True where what a rank stores is a piece of the flat bucket; with Sharding::values outside of the device it may be
  /// the only one.
  [[nodiscard]] bool stores_pieces() const { return pieces > 1 || gathers_values(); }
};

/// A parameter of the program, before it has a bucket.
struct BucketMember {
  std::size_t index = 0;
  ParameterStorage storage;
  DType gradient_type = DType::f32;
  /// Stages that hold it, and the first block that reads it; -1 where none does.
  std::vector<int> stages;
  int block = 0;
};

/// Makes the flat buffers of buckets and turns those of their parameters into views.
class BucketMaker {
 public:
  /// `bytes`: a bucket is closed before its gradients exceed it. `first`: number of the first bucket.
  BucketMaker(ProgramBuilder& builder, std::vector<BucketMember> members, std::int64_t bytes, int first = 0)
      : builder_(builder), members_(std::move(members)), bytes_(bytes), count_(first) {}

  /// Buckets of parameters whose gradients or values are dealt over ranks; made before anything is partitioned, since
  /// each block's work brings them together. A bucket whose values are gathered is of one block.
  [[nodiscard]] std::vector<Bucket> make_dealt();
  /// Buckets of the others, in the order in which the backward pass completes them.
  [[nodiscard]] std::vector<Bucket> make_whole(const GradientAccumulators& gradients);
  /// Gives a bucket the optimizer's states, and the f32 copy that values of a lower type are trained through.
  void add_states(Bucket& bucket, const std::vector<std::string>& states);

 private:
  [[nodiscard]] Bucket open(const BucketMember& member) const;
  void lay_out(Bucket& bucket);
  void make_value_views(Bucket& bucket);
  /// Moves a buffer of the bucket to another place.
  void put(BufferId buffer, const Bucket& bucket, MemoryPlace place);
  [[nodiscard]] std::int64_t size_of_member(const BucketMember& member) const;
  [[nodiscard]] const BucketMember& member(std::size_t index) const;

  ProgramBuilder& builder_;
  std::vector<BucketMember> members_;
  std::int64_t bytes_;
  int count_;
};

/// For the name of a gradient that is a sum over `partial` not yet made; empty for a whole one.
[[nodiscard]] std::string partial_suffix(const AxisSet& partial);

}  // namespace strata::host
