#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/bucket_work.hpp"
#include "strata/export.hpp"
#include "strata/gradient_work.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/lowering.hpp"
#include "strata/mesh.hpp"
#include "strata/op.hpp"
#include "strata/options.hpp"
#include "strata/plugin.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// How gradients are collected in flat buckets and reduced. The choice changes cost, never results.
struct GradientBuckets {
  /// Largest size of a bucket in bytes. A parameter that is larger has a bucket of its own.
  std::int64_t bytes = 25LL * 1024 * 1024;
  /// True: a bucket is reduced as soon as its last gradient is ready, overlapping with the rest of the backward pass.
  bool overlap = true;

  bool operator==(const GradientBuckets&) const = default;
};

/// A parameter, described to strategies that choose its storage.
struct ParameterDescription {
  std::string name;
  Dims dims;
  /// Those of `dims` that the first matrix product with the parameter sums over: the matrix's input side. Empty if no
  /// product reads it.
  Dims contracted = {};
  /// Elements of the whole tensor.
  std::int64_t elements = 0;
  DType dtype = DType::f32;
  /// The first block that reads it.
  int block = 0;
  /// Any but constant: strategies are not asked about constants.
  ParameterRole role = ParameterRole::trained;
  /// Whether weight decay applies.
  bool decay = true;
  /// Sizes of `dims`.
  Shape shape = {};
};

/// What the storage axes shard. Each level includes the levels before it (Rajbhandari et al., "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", SC 2020).
enum class Sharding : std::uint8_t {
  nothing,
  states,     ///< the optimizer states (ZeRO-1)
  gradients,  ///< gradients, which every micro-batch reduce-scatters (ZeRO-2)
  values      ///< the values, which are gathered for use (ZeRO-3, FSDP)
};

STRATA_API std::string_view to_string(Sharding sharding);

/// How a parameter, its gradient and its optimizer states are stored.
struct ParameterStorage {
  Sharding sharding = Sharding::nothing;
  /// The axes that shard the storage, outermost first. The host leaves out axes that already shard the parameter's
  /// compute layout.
  std::vector<Axis> axes;
  /// For Sharding::values: each rank keeps a piece over these axes, the innermost of `axes`, after the forward pass.
  /// The backward pass gathers from that piece over fewer ranks (ZeRO++ hpZ, Wang et al., 2023). Empty: it gathers from
  /// the storage.
  std::vector<Axis> secondary_axes;
  /// For Sharding::values: gathered values are freed after each block and gathered again for the backward pass. False:
  /// training gathers them once, when the step starts.
  bool reshard_after_forward = true;
  /// For Sharding::values: how many blocks ahead of their use values start to be gathered. For states and gradients, 0
  /// gathers updated values when the step ends. A larger number gathers them when the next step starts, where the
  /// forward pass hides it. A rank then stores its piece besides the whole values.
  int prefetch = 1;
  /// Where the optimizer states are stored, and with Sharding::values also the values.
  MemoryPlace states_place = MemoryPlace::device;
  MemoryPlace values_place = MemoryPlace::device;
  /// Directory of MemoryPlace::file, the same for all parameters. Empty: the host chooses.
  std::string directory;
  /// True: one rank along the only axis keeps the states and updates. The others hold values and gradients only.
  bool single_writer = false;

  bool operator==(const ParameterStorage&) const = default;
};

/// Splits the collectives of activations over `axis` into chunks. Each chunk overlaps with the part of an op that reads
/// or writes another chunk: a matrix product is split along the batch, an op with routed rows (OpDefinition) along
/// these.
struct ChunkedOverlap {
  Axis axis;
  /// Wanted number of chunks. The host takes the largest number up to it that divides the rank's sequences of a
  /// micro-batch, or its rows.
  int chunks = 1;
};

/// Cost of one block (layer) in one micro-batch, summed over all ranks.
struct BlockCost {
  int block = 0;
  double forward_flops = 0;
  double backward_flops = 0;
  std::int64_t parameter_bytes = 0;
};

/// The assignment of blocks to pipeline stages. A chunk is a run of consecutive blocks that a stage executes as one
/// task. A stage may have several chunks.
struct Placement {
  Axis axis;
  /// The chunk of each block.
  std::vector<int> chunk_of_block;
  /// The stage of each chunk: its coordinate along `axis`.
  std::vector<int> stage_of_chunk;
  /// True if schedule() contains tasks of Phase::weight. If false, backward tasks compute parameter gradients too.
  bool splits_weight_gradients = false;
};

/// One task of a stage's schedule.
struct ScheduledTask {
  Phase phase = Phase::forward;
  int micro_batch = 0;
  int chunk = 0;

  bool operator==(const ScheduledTask&) const = default;
};

/// The task in words for messages, such as "F of micro-batch 2, chunk 1".
[[nodiscard]] STRATA_API std::string to_string(const ScheduledTask& task);

/// A parallelism, or any other transformation of a training step. Every hook is optional. The host calls the hooks in
/// the order of the [[strategy]] tables of the configuration. A strategy sees no other strategy, no model code and no
/// rank. A strategy whose replicas may differ for some steps also derives from ReplicaHooks, and one that sums
/// gradients itself from GradientHooks.
class STRATA_API Strategy {
 public:
  virtual ~Strategy();

  /// The axes that the strategy adds to the mesh, outermost first.
  [[nodiscard]] virtual std::vector<MeshAxis> axes() const;
  /// Mappings of named dimensions onto axes.
  [[nodiscard]] virtual std::vector<Rule> rules() const;
  /// Replaces, clones or tags nodes of the forward graph, before differentiation.
  virtual void rewrite_forward(Graph& graph, const OpRegistry& registry) const;
  /// Replaces, clones or tags nodes after differentiation.
  virtual void rewrite(Graph& graph, const OpRegistry& registry) const;
  /// Bucketing of gradient reductions. Empty: no preference. All strategies of a stack that return a value must agree.
  [[nodiscard]] virtual std::optional<GradientBuckets> gradient_buckets() const;

  /// Overlap of collectives over one of its axes with matrix products. Empty: none. At most one strategy of a stack may
  /// return a value for an axis.
  [[nodiscard]] virtual std::optional<ChunkedOverlap> chunked_overlap() const;

  /// Storage of a parameter. Empty: no preference. At most one strategy of a stack may return a value for a parameter.
  [[nodiscard]] virtual std::optional<ParameterStorage> storage(const ParameterDescription& parameter) const;

  /// Maps blocks to chunks and stages. Empty: no preference. At most one strategy of a stack may return a value; the
  /// host then asks the same strategy for the schedule. \throws ConfigurationError if the blocks do not fit.
  [[nodiscard]] virtual std::optional<Placement> place(const std::vector<BlockCost>& blocks) const;
  /// The order of work of one stage, which contains every (phase, micro-batch, chunk of the stage) once. Called only if
  /// place() returned a value. \throws ConfigurationError if the number of micro-batches does not fit.
  [[nodiscard]] virtual std::vector<ScheduledTask> schedule(int stage, int micro_batches) const;

  /// The largest error of an element of a gradient that the strategy exchanges in fewer bits, relative to the largest
  /// element of its block. In a run of short types rounding decides which way such an element goes, so proofs compare
  /// gradients with this tolerance there; in f64 they are exact. Default: 0, gradients are exchanged in their type.
  [[nodiscard]] virtual double gradient_error() const;

  /// Claims `node`. The returned function builds its instructions. Empty: the partitioner builds them. At most one
  /// strategy of a stack may claim a node.
  [[nodiscard]] virtual Lowering lower(NodeToLower& node) const;
  /// Claims a collective. The returned function builds the instructions that replace it. Empty: the collective stays.
  /// At most one strategy of a stack may claim it.
  [[nodiscard]] virtual Conversion convert(const PlannedCollective& collective) const;
};

/// What a strategy does for a plan of `strata plan`, which searches for the stack that trains a model fastest on a
/// cluster. The planner knows no strategy by name: it combines proposals, compiles them and simulates their programs. A
/// plan has at most one proposal for each purpose but PlanPurpose::refinement. The order is the planner's first
/// choice of the mesh, outermost axis first: ranks of the last axis are neighbours.
enum class PlanPurpose : std::uint8_t {
  none,       ///< the strategy is never proposed. The planner keeps it where the configuration has it
  stages,     ///< it deals the layers to groups of ranks
  replicas,   ///< it deals the batch to ranks
  sequence,   ///< it deals the tokens of a sequence to ranks
  tensors,    ///< it splits every layer over ranks
  memory,     ///< it needs no ranks and trades time for memory
  refinement  ///< it needs no ranks and lays out some ops of a whole plan in another way: `strata plan --refine`
};

/// What is known when a strategy is asked for proposals.
struct PlanningContext {
  /// Devices of the cluster. For PlanPurpose::replicas: those that the plan's other strategies leave, all of which a
  /// proposal takes.
  int devices = 1;
  int devices_per_node = 1;
  /// Blocks of the model, such as its embedding, its layers and its head.
  int blocks = 1;
  /// The dimensions of the model, for a batch of one sample.
  DimSizes sizes;
  std::int64_t global_batch = 1;
  /// For PlanPurpose::replicas and PlanPurpose::refinement: the axes of the plan's other strategies.
  std::map<Axis, PlanPurpose> axes;
  /// For PlanPurpose::refinement: the model's forward graph. The host owns it. Null for other purposes.
  const Graph* graph = nullptr;

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

/// The factory of a strategy plugin.
class STRATA_API StrategyFactory : public PluginFactory {
 public:
  ~StrategyFactory() override;
  /// True if the strategy changes what the model computes or which parameters it has, so that a checkpoint means
  /// nothing without it. Commands that drop strategies, such as generation on one rank, keep it. Such a strategy works
  /// on one rank. Default: false.
  [[nodiscard]] virtual bool changes_model() const;
  /// What the strategy does for a plan. Default: none.
  [[nodiscard]] virtual PlanPurpose plan_purpose() const;
  /// The ways to use the strategy that `strata plan` tries. A way that does not fit the model is refused when it is
  /// compiled, so proposals need not be exact. Default: none.
  [[nodiscard]] virtual std::vector<PlanProposal> proposals(const PlanningContext& context) const;
  /// Creates the strategy from checked options. \throws OptionError if options contradict each other.
  [[nodiscard]] virtual std::unique_ptr<Strategy> create(const Options& options) const = 0;
};

/// The factory of a strategy that leaves options to the host on request, such as the schedule "auto" of a pipeline. The
/// host simulates the alternatives on a description of the machines, and takes the fastest that fits into memory. A
/// strategy with open options works too, for commands that need no decision.
class STRATA_API TunableStrategyFactory : public StrategyFactory {
 public:
  ~TunableStrategyFactory() override;
  /// Whether `options` leave something to the host.
  [[nodiscard]] virtual bool leaves_open(const Options& options) const = 0;
  /// The options that decide it, in ways that are worth a try. Each is tried with the blocks of chunks that suit it
  /// best, unless it gives the option of the role OptionRole::chunk_blocks itself. `context`: devices are the ranks of
  /// the strategy's axes.
  [[nodiscard]] virtual std::vector<PlanProposal> alternatives(const Options& options,
                                                               const PlanningContext& context) const = 0;
};

}  // namespace strata
