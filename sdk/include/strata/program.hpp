#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/memory_place.hpp"
#include "strata/mesh.hpp"
#include "strata/tensor.hpp"

/// \file
/// The program of a rank: static, printable, checked before it runs. Ranks that differ only in coordinates that the
/// partitioner treats alike share one program ("class of ranks"); what differs between them (which slice, which peers)
/// is resolved from the mesh and the rank's coordinates.

namespace strata {

/// One axis that shards a dimension, with the way it deals the pieces.
struct AxisShard {
  Axis axis;
  Distribution distribution = Distribution::block;
  /// The piece of the rank that stands this much further along the axis, around its end: what travels on a ring.
  int shift = 0;

  bool operator==(const AxisShard&) const = default;
};

/// An iteration dimension of an instruction and how it is sharded; enough to find any rank's IndexMap.
struct ShardedDim {
  Dim dim;
  std::int64_t global_size = 0;
  std::vector<AxisShard> axes;
  /// True for "batch": micro-batch m starts at m · global_size within the step.
  bool per_micro_batch = false;

  bool operator==(const ShardedDim&) const = default;
};

/// What the rank at `coordinates` holds of `dim`.
STRATA_API IndexMap index_map(const ShardedDim& dim, const Mesh& mesh, const Coordinates& coordinates);

/// `at` steps from `coordinate` along an axis of `size` ranks that is closed to a ring.
STRATA_API int around(int coordinate, int at, int size);

using BufferId = int;

enum class BufferKind : std::uint8_t { parameter, gradient, optimizer, activation, communication, workspace };

STRATA_API std::string_view to_string(BufferKind kind);

/// A piece of a rank's memory. Buffers that are not persistent exist once for every micro-batch that needs them.
struct Buffer {
  BufferId id = -1;
  std::string name;
  BufferKind kind = BufferKind::activation;
  DType dtype = DType::f32;
  /// Dimension names of the shard; {"flat"} for flat buffers.
  Dims dims;
  Shape shape;
  /// A view lies `offset` elements inside another buffer; -1 for a buffer of its own.
  BufferId base = -1;
  std::int64_t offset = 0;
  /// Keeps its contents from step to step.
  bool persistent = false;
  /// A buffer outside of the device is persistent, and only transfers touch it.
  MemoryPlace place = MemoryPlace::device;

  [[nodiscard]] std::int64_t elements() const { return element_count(shape); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
};

enum class InstructionKind : std::uint8_t {
  load,        ///< the host writes the rank's shard of a graph input
  compute,     ///< an op, by a device kernel
  copy,        ///< strided copies from one buffer to another: slices, packing and unpacking around collectives
  collective,  ///< all_reduce, …, over a group
  send,        ///< to the rank at another coordinate of one axis; never blocks
  receive,
  transfer  ///< the whole of a buffer between the device and another place, beside what follows until it is waited for
};

enum class CollectiveKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast };

STRATA_API std::string_view to_string(InstructionKind kind);
STRATA_API std::string_view to_string(CollectiveKind kind);

/// Rows of bytes copied from one buffer to another; which rows may depend on the rank, so pieces are described by
/// shards.
struct CopyDescription {
  enum class Kind : std::uint8_t {
    slice,  ///< keep this rank's piece of `dim`: [outer, n, inner] -> [outer, n/k, inner]
    pack,   ///< [outer, n, inner] -> k pieces along `dim`, each contiguous, in group order
    unpack  ///< the inverse of pack
  };
  Kind kind = Kind::slice;
  std::int64_t outer = 1;
  std::int64_t size = 1;  ///< elements along the dimension in the unsliced (or unpacked) tensor
  std::int64_t inner = 1;
  AxisShard axis;  ///< the axis whose ranks own the pieces
};

/// One instruction. Inputs are read, outputs written; an output that is also an input is updated in place.
struct Instruction {
  InstructionKind kind = InstructionKind::compute;
  /// For people, for error messages and for random numbers: the node's name, the input's, or the collective's label.
  std::string name;
  /// The block of the model that it works for; -1 for none.
  int block = -1;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;

  // compute
  std::string op;
  Attributes attributes;
  /// Iteration dimensions of the op, and the names of each operand's and result's dimensions among them.
  std::vector<ShardedDim> iteration;
  std::vector<Dims> operand_dims;
  std::vector<Dims> result_dims;
  /// Results are added to what the outputs hold.
  bool accumulate = false;
  /// Buffer that the kernel may scribble on; -1 for none.
  BufferId workspace = -1;

  // copy
  CopyDescription copy;

  // collective, send, receive
  CollectiveKind collective = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  /// The group is all ranks that differ in these axes only, in mesh order. Send and receive name one axis.
  std::vector<Axis> axes;
  /// Coordinates along the one axis that take part in a collective, ascending; empty: all.
  std::vector<int> members;
  /// Root's index in the group (broadcast), or the peer's coordinate along the axis (send, receive).
  int peer = 0;
  /// True where `peer` is the distance along the axis, around its end, instead of the coordinate (rings).
  bool relative_peer = false;
  /// Names this communication among all ranks that take part; unique within a program (together with the micro-batch).
  std::uint64_t id = 0;

  /// Buffers on which communication or a transfer started earlier must have finished before this instruction starts.
  std::vector<BufferId> waits;
};

/// Instructions of one chunk and phase: a template, run once for each scheduled micro-batch.
struct Task {
  enum class Kind : std::uint8_t { prologue, forward, backward, weight, epilogue };
  Kind kind = Kind::forward;
  int chunk = 0;
  std::string name;
  std::vector<Instruction> instructions;
};

STRATA_API std::string_view to_string(Task::Kind kind);

/// One execution of a task.
struct TaskInstance {
  int task = 0;
  /// -1 for prologue and epilogue.
  int micro_batch = -1;
};

/// How flat buckets are dealt: piece i of a bucket of `elements` belongs to the rank at index i over `axes`, outermost
/// first.
struct FlatSharding {
  std::vector<Axis> axes;
  /// Elements of the whole bucket, padded to a multiple of the ranks.
  std::int64_t elements = 0;
  /// Where the parameter's (local, row-major) elements begin in it.
  std::int64_t offset = 0;
  /// True where the values are stored as a piece too, and gathered when they are needed.
  bool values = false;

  bool operator==(const FlatSharding&) const = default;
};

/// The state that holds a parameter's values in f32 where they are stored in a lower type.
inline constexpr const char* kMasterState = "master";

/// Where a parameter's values, and what belongs to them, live on a rank of this program.
struct StoredParameter {
  std::string name;
  /// Logical dims, and how each is sharded; with the mesh they give the rank's slice of the logical tensor.
  std::vector<ShardedDim> dims;
  Initialization initialization;
  bool decay = true;
  bool gradient_is_zero = false;
  BufferId value = -1;
  BufferId gradient = -1;
  /// Optimizer state by name ("first_moment", …), same shape as the value; none on a rank that does not update it.
  std::map<std::string, BufferId> states;
  /// Set where a rank keeps a piece only: `states` (and `value`, where it says so) are then the rank's piece of the
  /// whole bucket, in which several parameters lie.
  std::optional<FlatSharding> sharding;
};

/// The static program of one class of ranks.
struct Program {
  std::string name;
  Mesh mesh;
  int micro_batches = 1;
  std::vector<Buffer> buffers;
  std::vector<Task> tasks;
  std::vector<TaskInstance> schedule;
  std::vector<StoredParameter> parameters;
  /// Scalars (f64) or tensors that the host reads after the step: "loss", "count", "grad_norm", or a graph output.
  std::map<std::string, BufferId> reports;
  /// In which directory buffers of MemoryPlace::file lie; empty: the host chooses.
  std::string offload_directory;

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers.at(static_cast<std::size_t>(id)); }
  /// Ranks of the group of a collective.
  [[nodiscard]] STRATA_API int group_size(const Instruction& instruction) const;
  /// The buffer that owns the memory of `id`.
  [[nodiscard]] STRATA_API BufferId root(BufferId id) const;
};

STRATA_API std::string to_string(const Program& program);
STRATA_API std::string to_string(const Program& program, const Instruction& instruction);

/// Elements that a collective reads on each rank (`input`) and writes (`output`), and bytes that a rank sends by the
/// usual ring count: all_reduce 2(n-1)/n · size, reduce_scatter and all_gather (n-1)/n · full size, all_to_all (n-1)/n
/// · size.
STRATA_API double bytes_sent(const Program& program, const Instruction& instruction);

}  // namespace strata
