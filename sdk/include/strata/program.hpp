#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/mesh.hpp"
#include "strata/tensor.hpp"

/// \file
/// The program of a rank is a static list of instructions that can be printed and is checked before it runs. Ranks form
/// a class if they differ only in coordinates that the partitioner treats alike. All ranks of a class share one
/// program. The mesh and a rank's coordinates determine its slices and its peers.

namespace strata {

/// One axis that shards a dimension, with its distribution.
struct AxisShard {
  Axis axis;
  Distribution distribution = Distribution::block;
  /// Selects the piece of the rank `shift` further along the axis, modulo its size. Ring algorithms need it, because
  /// pieces travel from rank to rank.
  int shift = 0;

  bool operator==(const AxisShard&) const = default;
};

/// An iteration dimension of an instruction and its sharding. It determines the IndexMap of every rank.
struct ShardedDim {
  Dim dim;
  std::int64_t global_size = 0;
  std::vector<AxisShard> axes;
  /// True for "batch": micro-batch m starts at index m · global_size of the step.
  bool per_micro_batch = false;

  bool operator==(const ShardedDim&) const = default;
};

/// The indices of `dim` that the rank at `coordinates` holds.
STRATA_API IndexMap index_map(const ShardedDim& dim, const Mesh& mesh, const Coordinates& coordinates);

/// The coordinate that is `at` steps after `coordinate` on a ring of `size` ranks. `at` may be negative.
STRATA_API int around(int coordinate, int at, int size);

/// Index into Program::buffers.
using BufferId = int;

/// The purpose of a buffer, for memory reports and for strategies that claim collectives.
enum class BufferKind : std::uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,
  communication,
  workspace,
  cache  ///< what generation keeps of earlier positions (OpDefinition::keeps_result)
};

STRATA_API std::string_view to_string(BufferKind kind);

/// A piece of a rank's memory. A buffer that is not persistent has one instance per micro-batch that needs it.
struct Buffer {
  BufferId id = -1;
  std::string name;
  BufferKind kind = BufferKind::activation;
  DType dtype = DType::f32;
  /// Dimension names of the shard, or {"flat"} for a flat buffer.
  Dims dims;
  /// Local sizes in elements.
  Shape shape;
  /// For a view, the buffer that contains it, which may be a view too. The view starts `offset` elements into `base`.
  /// -1 for a buffer with memory of its own.
  BufferId base = -1;
  std::int64_t offset = 0;
  /// True if the buffer keeps its contents from step to step.
  bool persistent = false;
  /// Where the buffer is stored. A buffer outside of the device is persistent, and only Transfer instructions access
  /// it.
  MemoryPlace place = MemoryPlace::device;

  [[nodiscard]] std::int64_t elements() const { return element_count(shape); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
};

enum class CollectiveKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast };

STRATA_API std::string_view to_string(CollectiveKind kind);

/// The host writes this rank's shard of a graph input to the output.
struct LoadInput {
  /// All dimensions of the input, outermost first.
  std::vector<ShardedDim> dims;
};

/// One op, computed by a kernel of the device.
struct Compute {
  std::string op;
  Attributes attributes = {};
  /// Iteration dimensions of the op, and for each operand and result the names of its dimensions among them. The two
  /// lists of names are empty for an op on flat buffers (OpDefinition::flat_signature).
  std::vector<ShardedDim> iteration = {};
  std::vector<Dims> operand_dims = {};
  std::vector<Dims> result_dims = {};
  /// True if results are added to the contents of the outputs.
  bool accumulate = false;
  /// Bytes of scratch memory that the device's kernel needs. Empty until the compiler has asked the device.
  std::optional<std::int64_t> workspace_bytes = std::nullopt;
  /// The buffer that holds the scratch memory; -1 if none is needed.
  BufferId workspace = -1;
};

/// Strided copies from the input to the output: slices, and packing around collectives. The copy names the axis instead
/// of offsets, because the rows depend on the rank's coordinates.
struct Copy {
  enum class Kind : std::uint8_t {
    slice,  ///< keep this rank's piece of `dim`: [outer, n, inner] -> [outer, n/k, inner]
    pack,   ///< [outer, n, inner] -> k pieces along `dim`, each contiguous, in group order
    unpack  ///< the inverse of pack
  };
  Kind kind = Kind::slice;
  std::int64_t outer = 1;
  std::int64_t size = 1;  ///< elements along `dim` before slicing or packing
  std::int64_t inner = 1;
  AxisShard axis;  ///< the axis whose ranks own the k pieces
};

/// One collective, from the input to the output. An all_gather or a reduce_scatter with marks has two more inputs: the
/// marks of the rows that this rank sends, and of those that it receives (RowMarks in communicator.hpp).
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  /// The group consists of the ranks that differ in these axes only, in mesh order.
  std::vector<Axis> axes;
  /// Coordinates along the only axis that take part, ascending. Empty: all of them.
  std::vector<int> members = {};
  /// Index in the group of the rank that broadcasts.
  int root = 0;
  /// Identifies the communication, together with the micro-batch, on all ranks that take part. Unique within a program.
  std::uint64_t id = 0;
  /// Kind of the values, for strategies that may claim the collective (Strategy::convert). Empty for the loss, counts
  /// and norms, which no strategy may claim.
  std::optional<BufferKind> content = std::nullopt;
  /// Marks of a row; 0: none, all rows travel.
  std::int64_t marks = 0;
};

/// The other end of a message: the rank that differs in the coordinate of one axis.
struct Peer {
  Axis axis;
  /// If `is_relative`, the distance along the axis modulo its size, for rings. If not, the coordinate.
  int coordinate = 0;
  bool is_relative = false;

  bool operator==(const Peer&) const = default;
};

/// Sends the input to a peer. A send never blocks. It is complete when the peer has received the message.
struct Send {
  Peer to;
  /// Identifies the message, as Collective::id. The matching Receive has the same id.
  std::uint64_t id = 0;
  /// Messages of one channel between two ranks are received in the order in which they are sent. Channels have no order
  /// among each other. Both ends name the same channel.
  int channel = 0;
};

/// Receives a peer's message into the output.
struct Receive {
  Peer from;
  std::uint64_t id = 0;
  /// As Send::channel.
  int channel = 0;
};

/// Copies the whole input to the output, one of which is outside of the device. The copy is asynchronous until an
/// instruction waits for it.
struct Transfer {};

/// In which runs of its task an instruction is executed.
enum class Occurrence : std::uint8_t {
  always,
  last  ///< only in the task's last run of a step, such as a reduction of gradients that all micro-batches accumulate
};

/// The steps in which an instruction is executed: those with step % period == phase. The default is every step. All
/// ranks know the step number, so all of them choose alike. Example: an exchange at the end of every fourth step, the
/// steps 3, 7, 11, …, has the period 4 and the phase 3.
struct StepCondition {
  std::int64_t period = 1;
  std::int64_t phase = 0;

  [[nodiscard]] bool holds(std::uint64_t step) const {
    return step % static_cast<std::uint64_t>(period) == static_cast<std::uint64_t>(phase);
  }
  [[nodiscard]] bool is_always() const { return period == 1; }

  auto operator<=>(const StepCondition&) const = default;
};

/// A wait for communication of the micro-batch that is `distance` (1 or more) before the instruction's own. There is
/// nothing to wait for if the step has no such micro-batch.
struct EarlierWait {
  BufferId buffer = -1;
  int distance = 1;

  bool operator==(const EarlierWait&) const = default;
};

/// One instruction. It reads the inputs and writes the outputs. A buffer that is both is updated in place.
struct Instruction {
  /// Name for people and error messages: that of the node, the input or the communication. It also keys the random
  /// numbers of a Compute.
  std::string name = {};
  std::variant<LoadInput, Compute, Copy, Collective, Send, Receive, Transfer> work;
  std::vector<BufferId> inputs = {};
  std::vector<BufferId> outputs = {};
  /// Buffers whose asynchronous communication or transfer must be complete before this instruction starts.
  std::vector<BufferId> waits = {};
  /// The block (layer) of the instruction; -1 for none.
  int block = -1;
  Occurrence occurrence = Occurrence::always;
  StepCondition when = {};
  /// As `waits`, for buffers of earlier micro-batches.
  std::vector<EarlierWait> earlier_waits = {};

  /// The work as a `Work`, such as Compute. Null if the work has another type.
  template <class Work>
  [[nodiscard]] const Work* as() const {
    return std::get_if<Work>(&work);
  }
  template <class Work>
  [[nodiscard]] Work* as() {
    return std::get_if<Work>(&work);
  }
  template <class Work>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Work>(work);
  }
  /// Compute::workspace of an op; -1 if there is none.
  [[nodiscard]] BufferId workspace() const {
    const auto* compute = as<Compute>();
    return compute == nullptr ? -1 : compute->workspace;
  }
};

/// The type of the work: "compute", "collective", …
STRATA_API std::string_view kind_name(const Instruction& instruction);
/// The op's name, the kind of a collective ("all_reduce"), or the type of other work ("send").
STRATA_API std::string work_name(const Instruction& instruction);
/// The axes of the communication. Empty for other instructions.
STRATA_API std::vector<Axis> communication_axes(const Instruction& instruction);
/// True for collectives, sends and receives.
STRATA_API bool is_communication(const Instruction& instruction);
/// True for communication and transfers, which run until an instruction waits for them.
STRATA_API bool is_asynchronous(const Instruction& instruction);
/// The id of a communication. \throws VerificationError for other instructions.
STRATA_API std::uint64_t communication_id(const Instruction& instruction);

/// The instructions of one chunk and phase. A task is a template that runs once for each scheduled micro-batch.
struct Task {
  enum class Kind : std::uint8_t { prologue, forward, backward, weight, epilogue };
  Kind kind = Kind::forward;
  int chunk = 0;
  std::string name;
  std::vector<Instruction> instructions;
};

STRATA_API std::string_view to_string(Task::Kind kind);

/// One scheduled run of a task.
struct TaskInstance {
  int task = 0;
  /// The micro-batch; -1 for prologue and epilogue.
  int micro_batch = -1;
  /// True for the task's last run of a step.
  bool is_last = true;

  /// True if this run executes `instruction`.
  [[nodiscard]] bool runs(const Instruction& instruction) const {
    return is_last || instruction.occurrence == Occurrence::always;
  }
};

/// How the ranks share a flat bucket: piece i belongs to the rank with index i over `axes`, outermost first.
struct FlatSharding {
  std::vector<Axis> axes;
  /// Elements of the whole bucket, padded to a multiple of the number of ranks.
  std::int64_t elements = 0;
  /// Index in the bucket of the parameter's first local element. Its elements are contiguous and row-major.
  std::int64_t offset = 0;
  /// True if a rank stores only a piece of the values too, and gathers them for use (ZeRO-3).
  bool values = false;

  bool operator==(const FlatSharding&) const = default;
};

/// Name of the optimizer state that holds the values in f32 if the parameter has a shorter type.
inline constexpr const char* kMasterState = "master";

/// Beginning of the name of a strategy's state that holds the values on which replicas agreed last. A run without
/// replicas, such as text generation, restores values from it if the replicas of a checkpoint differ.
inline constexpr const char* kAgreedState = "agreed";

/// Beginning of the name of a strategy's state that holds gradients which no update has applied yet. A run that resumes
/// without the state loses them, and says so.
inline constexpr const char* kPendingState = "pending";

/// How a state that a strategy keeps for a parameter (BucketContext::add_state, ReductionContext::add_state) differs
/// from an optimizer's state.
struct StateTraits {
  /// True: the state equals the parameter's values before the first step. False: it is zero.
  bool begins_as_value = false;
  /// The axes along which ranks hold different contents: replicas, then workers. Not those that shard the parameter.
  std::vector<Axis> unsynchronized;
  /// True: only the sum over the unsynchronized axes matters (GradientState::is_of_worker).
  bool is_summed = false;

  bool operator==(const StateTraits&) const = default;
};

/// The buffers of one parameter on a rank of this program.
struct StoredParameter {
  std::string name;
  /// Logical dims and their sharding. With the mesh they determine the rank's slice of the logical tensor.
  std::vector<ShardedDim> dims;
  Initialization initialization;
  bool decay = true;
  bool gradient_is_zero = false;
  ParameterRole role = ParameterRole::trained;
  /// Parameter::sign_step.
  double sign_step = 0;
  BufferId value = -1;
  BufferId gradient = -1;
  /// Buffers of the optimizer states by name ("first_moment", …), with the shape of the value unless `state_dims` has
  /// the name. Empty on a rank that does not update the parameter.
  std::map<std::string, BufferId> states;
  /// Dims of those states that have their own, such as one number for each row.
  std::map<std::string, std::vector<ShardedDim>> state_dims;
  /// Where the states of whole parameters are (OptimizerState::is_of_whole). Parameters whose dimensions are equal
  /// share a bucket, each piece of which holds the state of one of them. All ranks have all other states with own dims.
  std::map<std::string, FlatSharding> state_sharding;
  /// Set if the rank keeps only a piece of a bucket. The `states` without own dims are then that piece of the whole
  /// bucket, which may hold several parameters. So is `value` if FlatSharding::values is set.
  std::optional<FlatSharding> sharding;
  /// The unsynchronized axes along which the values and the optimizer's states differ, in mesh order
  /// (ReplicaHooks::unsynchronized_axes).
  std::vector<Axis> unsynchronized = {};
  /// Traits of those of the `states` that belong to strategies.
  std::map<std::string, StateTraits> traits = {};
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
  /// Values that the host reads after the step: the f64 scalars "loss", "count" and "grad_norm", and graph outputs.
  std::map<std::string, BufferId> reports;
  /// Directory of the buffers in MemoryPlace::file. Empty: the host chooses.
  std::string offload_directory;

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers.at(static_cast<std::size_t>(id)); }
  /// Number of ranks in the group of a collective.
  [[nodiscard]] STRATA_API int group_size(const Collective& collective) const;
  /// The buffer that owns the memory of `id`. It is `id` itself unless that is a view.
  [[nodiscard]] STRATA_API BufferId root(BufferId id) const;
};

/// The program, or one of its instructions, as text. `strata explain --program` prints it.
STRATA_API std::string to_string(const Program& program);
STRATA_API std::string to_string(const Program& program, const Instruction& instruction);

/// Bytes that a rank sends in one run of `instruction` if collectives use ring algorithms. For a group of n ranks, and
/// size the bytes of the larger of input and output:
///   all_reduce          2(n-1)/n · size
///   other collectives   (n-1)/n · size
///   send                the bytes of its input
/// 0 for other instructions.
STRATA_API double bytes_sent(const Program& program, const Instruction& instruction);

}  // namespace strata
