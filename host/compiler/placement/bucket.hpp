#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/placement/storage.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// What the parameters of a bucket have in common.
struct BucketKind {
  ParameterStorage storage;
  /// Axes that shard every parameter of the bucket in its compute layout.
  AxisSet shard_axes;
  /// Stages that hold the parameters. A tied parameter has several, and its gradients are summed over them.
  std::vector<int> stages;
  ParameterRole role = ParameterRole::trained;
  /// Parameter::sign_step.
  double sign_step = 0;
  /// The OptimizerGroup of the parameters.
  int group = 0;
  /// True if the bucket takes no second parameter.
  bool has_own_bucket = false;
  Fragments fragments;
  /// True if the graph has gradients of the parameters, on these stages or on others.
  bool has_gradient = false;
  DType type = DType::f32;
  DType gradient_type = DType::f32;

  bool operator==(const BucketKind&) const = default;
};

/// A parameter of a rank's program that has no bucket yet.
struct BucketMember {
  /// Index into Program::parameters.
  std::size_t index = 0;
  /// The first block that reads it; -1 if none does.
  int block = 0;
  BucketKind kind;
};

/// Parameters whose values, gradients and optimizer states are contiguous in flat buffers, so that one collective and
/// one optimizer launch serve all of them. A bucket does not change after it is laid out.
struct Bucket : BucketKind {
  std::string name;
  /// Indices into Program::parameters, with decayed parameters first, and the index of each one's first element.
  std::vector<std::size_t> parameters;
  std::vector<std::int64_t> offsets;
  /// Elements of the bucket, padded to a multiple of `pieces`.
  std::int64_t elements = 0;
  /// Weight decay applies to the first `decay_elements` elements.
  std::int64_t decay_elements = 0;
  /// Number of ranks that share the bucket: the product of the storage axes, 1 if every rank has it whole.
  int pieces = 1;
  /// Buffer of the values that are updated: of the whole bucket, or of this rank's piece if it stores no more or
  /// gathers for each step.
  BufferId values = -1;
  /// Buffer of the whole bucket if it is gathered for each step.
  BufferId gathered = -1;

  /// Parameters of equal kinds may share a bucket.
  [[nodiscard]] const BucketKind& kind() const { return *this; }
  [[nodiscard]] std::int64_t piece_elements() const { return elements / pieces; }
  /// True if the values are shorter than f32, so that their optimizer keeps a master copy.
  [[nodiscard]] bool has_master() const { return size_of(type) < size_of(DType::f32); }
  /// The axes along which ranks hold other elements of the parameters.
  [[nodiscard]] AxisSet piece_axes() const;
  /// True if every micro-batch reduce-scatters the gradients to the ranks' pieces.
  [[nodiscard]] bool reduces_each_micro_batch() const {
    return gathers_values() || (pieces > 1 && storage.sharding >= Sharding::gradients);
  }
  /// True if blocks gather the values before use, from other ranks, from outside of the device, or both.
  [[nodiscard]] bool gathers_values() const {
    return storage.sharding == Sharding::values && (pieces > 1 || storage.values_place != MemoryPlace::device);
  }
  /// True if every rank stores its piece of the values, and gathers the whole values when a step starts (ZeRO-1,
  /// ZeRO-2).
  [[nodiscard]] bool gathers_for_step() const { return pieces > 1 && !gathers_values() && storage.prefetch > 0; }
  /// True if every rank stores the whole values, and slices from them the piece that it updates (ZeRO-1, ZeRO-2).
  [[nodiscard]] bool updates_piece_of_whole() const { return pieces > 1 && !gathers_values() && !gathers_for_step(); }
  /// True if a rank stores a piece of the flat bucket. If offloaded values are not sharded, it is the only piece.
  [[nodiscard]] bool stores_pieces() const { return pieces > 1 || gathers_values(); }
};

/// True for ParameterRole::running_average: no optimizer and no norm has the bucket.
[[nodiscard]] inline bool is_running_average(const Bucket& bucket) {
  return bucket.role == ParameterRole::running_average;
}

/// Assigns parameters to buckets, adds the buckets' value buffers, and turns the parameters' buffers into views of
/// them.
class BucketMaker {
 public:
  /// `bytes`: largest size of a bucket's gradients, unless one parameter exceeds it. `first`: number of the first
  /// bucket.
  BucketMaker(ProgramBuilder& builder, std::int64_t bytes, int first = 0)
      : builder_(builder), bytes_(bytes), count_(first) {}

  /// A bucket with `member` as its only parameter, not yet laid out.
  [[nodiscard]] Bucket open(const BucketMember& member) const;
  /// Adds `member` to `bucket`. \return false, without a change, if it does not fit.
  bool add(Bucket& bucket, const BucketMember& member) const;
  /// Fixes the offsets of the parameters and adds the value buffer. Called once, when the bucket is full.
  void lay_out(Bucket& bucket);
  /// Makes the values' buffer of a bucket whose places are fixed.
  void make_value_views(Bucket& bucket);

 private:
  [[nodiscard]] std::int64_t size_of_member(const BucketMember& member) const;

  ProgramBuilder& builder_;
  std::int64_t bytes_;
  int count_;
};

/// Type of master copies, states and directions of the bucket.
[[nodiscard]] DType full_type(const Bucket& bucket);

/// What an op on this rank's piece of the bucket iterates: "flat", the piece of the whole bucket, and the dimensions of
/// the parameter if it is alone.
[[nodiscard]] std::vector<ShardedDim> piece_iteration(const Program& program, const Bucket& bucket);

/// Moves a buffer of the bucket to another memory place.
void put_buffer(ProgramBuilder& builder, BufferId buffer, const Bucket& bucket, MemoryPlace place);

/// The axes that shard a tensor of this layout.
[[nodiscard]] AxisSet axes_of(const Layout& layout);

/// The axes of a set in mesh order.
[[nodiscard]] std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes);

/// Appends an all_gather of `piece` over `axes` into a new flat buffer of `elements`. \return the buffer.
BufferId gather_pieces(ProgramBuilder& builder, BufferId piece, const std::vector<Axis>& axes, std::int64_t elements,
                       const std::string& label, std::vector<Instruction>& instructions);

/// Appends an all_gather of `piece` over `axes` into `whole`.
void gather_into(ProgramBuilder& builder, BufferId piece, BufferId whole, const std::vector<Axis>& axes,
                 const std::string& label, std::vector<Instruction>& instructions);

/// Slices this rank's piece over `axes` from a flat buffer that is equal on all ranks. \return the piece.
BufferId slice_piece(ProgramBuilder& builder, BufferId flat, const std::vector<Axis>& axes, const std::string& label,
                     std::vector<Instruction>& instructions);

/// Reduces a whole flat gradient that is partial over `partial`, leaving this rank's piece of the bucket. Storage axes
/// over which it is partial are reduce-scattered, and the other storage axes are sliced. Removes the self-reduced axes
/// from `partial`. \return the piece.
BufferId scatter_gradient(ProgramBuilder& builder, const Bucket& bucket, BufferId flat, AxisSet& partial,
                          const std::string& label, std::vector<Instruction>& instructions);

/// All-reduces a flat gradient in place over the axes over which it is partial.
void reduce_gradient(ProgramBuilder& builder, BufferId gradient, const AxisSet& partial, const std::string& label,
                     std::vector<Instruction>& instructions);

}  // namespace strata::host
