#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/lowering.hpp"
#include "strata/memory_place.hpp"
#include "strata/mesh.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"

namespace strata {

/// How gradients are gathered into flat buckets and reduced. Affects cost, never results.
struct GradientBuckets {
  /// A bucket is closed before it exceeds this many bytes (a larger parameter has one of its own).
  std::int64_t bytes = 25LL * 1024 * 1024;
  /// Reduce a bucket as soon as its last gradient is there, beside the rest of the backward pass.
  bool overlap = true;
};

/// A parameter as a strategy sees it when it decides on its storage.
struct ParameterDescription {
  std::string name;
  Dims dims;
  /// Of the whole tensor.
  std::int64_t elements = 0;
  DType dtype = DType::f32;
  /// The first block that reads it.
  int block = 0;
};

/// What of a parameter is dealt over the storage axes; each includes those before it (Rajbhandari et al., "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", SC 2020).
enum class Sharding : std::uint8_t {
  nothing,
  states,     ///< the optimizer's states (ZeRO-1)
  gradients,  ///< gradients, reduced in every micro-batch (ZeRO-2)
  values      ///< the values, gathered where they are needed (ZeRO-3, FSDP)
};

STRATA_API std::string_view to_string(Sharding sharding);

/// How a parameter, its gradient and its optimizer states are stored.
struct ParameterStorage {
  Sharding sharding = Sharding::nothing;
  /// Over which axes, outermost first. Those that shard the parameter's compute layout already are left out.
  std::vector<Axis> axes;
  /// Sharding::values only: after the forward pass a piece over these axes (some of `axes`, the innermost) is kept, and
  /// the backward pass gathers from it instead (ZeRO++ hpZ, Wang et al., 2023). Empty: from the storage.
  std::vector<Axis> secondary_axes;
  /// Sharding::values only: gathered values are freed after the forward pass and gathered again for the backward pass.
  bool reshard_after_forward = true;
  /// Sharding::values only: blocks ahead of their use at which values begin to be gathered.
  int prefetch = 1;
  /// Where the optimizer's states lie, and, with Sharding::values, the values.
  MemoryPlace states_place = MemoryPlace::device;
  MemoryPlace values_place = MemoryPlace::device;
  /// In which directory MemoryPlace::file lies, the same for all parameters; empty: the host chooses.
  std::string directory;
  /// One rank along the (one) axis keeps the states and updates; the others hold values and gradients.
  bool single_writer = false;

  bool operator==(const ParameterStorage&) const = default;
};

/// Collectives of activations over an axis are cut into parts along the batch, each beside the matrix product that
/// makes or reads another part.
struct ChunkedOverlap {
  Axis axis;
  /// As many, or the most below that divide the sequences that a rank has of a micro-batch.
  int chunks = 1;
};

/// What one block of the model costs in one micro-batch, over all ranks.
struct BlockCost {
  int block = 0;
  double forward_flops = 0;
  double backward_flops = 0;
  std::int64_t parameter_bytes = 0;
};

/// Which rank along an axis (stage) does which blocks. A chunk is a run of blocks that a stage does in one go.
struct Placement {
  Axis axis;
  /// By block.
  std::vector<int> chunk_of_block;
  /// By chunk: coordinate along the axis.
  std::vector<int> stage_of_chunk;
};

/// One piece of a stage's work.
struct ScheduledTask {
  Phase phase = Phase::forward;
  int micro_batch = 0;
  int chunk = 0;

  bool operator==(const ScheduledTask&) const = default;
};

/// "F of micro-batch 2, chunk 1", for messages.
[[nodiscard]] STRATA_API std::string to_string(const ScheduledTask& task);

/// A parallelism, or any other transformation of a training step. Every hook is optional; the host calls them in the
/// order of the configuration's [[strategy]] tables. A strategy never sees another strategy, a model's code or a rank.
class STRATA_API Strategy {
 public:
  virtual ~Strategy();

  /// Axes that it adds to the mesh, outermost first.
  [[nodiscard]] virtual std::vector<MeshAxis> axes() const;
  /// Mappings of named dimensions onto axes.
  [[nodiscard]] virtual std::vector<Rule> rules() const;
  /// May replace, clone or tag nodes of the forward graph, before differentiation.
  virtual void rewrite_forward(Graph& graph, const OpRegistry& registry) const;
  /// The same after differentiation.
  virtual void rewrite(Graph& graph, const OpRegistry& registry) const;
  /// Bucketing of gradient reductions; the first strategy of the stack that answers decides.
  [[nodiscard]] virtual std::optional<GradientBuckets> gradient_buckets() const;

  /// Overlap of collectives over one of its axes with matrix products; empty for none.
  [[nodiscard]] virtual std::optional<ChunkedOverlap> chunked_overlap() const;

  /// How a parameter is stored; empty for no opinion. At most one strategy of a stack may answer for a parameter.
  [[nodiscard]] virtual std::optional<ParameterStorage> storage(const ParameterDescription& parameter) const;

  /// Maps blocks to chunks and stages; empty for no opinion. At most one strategy of a stack may answer. The host asks
  /// this strategy for the order of work, too. \throws ConfigurationError where the blocks do not fit.
  [[nodiscard]] virtual std::optional<Placement> place(const std::vector<BlockCost>& blocks) const;
  /// True if tasks of Phase::weight are scheduled apart; else parameter gradients are made within the backward tasks.
  [[nodiscard]] virtual bool splits_weight_gradients() const;
  /// The order of the work of one stage: every (phase, micro-batch, chunk of the stage) once. Asked only where place()
  /// answered. \throws ConfigurationError for a number of micro-batches that does not fit.
  [[nodiscard]] virtual std::vector<ScheduledTask> schedule(int stage, int micro_batches) const;

  /// True if it lowers `node`, laid out as `iteration`, itself. At most one strategy of a stack may claim a node.
  [[nodiscard]] virtual bool claims_node(const Node& node, const IterationLayout& iteration) const;
  /// Builds the instructions of a node that it claims.
  virtual void lower(LoweringContext& context) const;

  /// True if it does a collective its own way. At most one strategy of a stack may claim it.
  [[nodiscard]] virtual bool claims_collective(const PlannedCollective& collective) const;
  /// Builds the instructions in the place of a collective that it claims.
  virtual void convert(ConversionContext& context) const;
};

/// What a strategy plugin hands to the host.
class STRATA_API StrategyFactory : public PluginFactory {
 public:
  ~StrategyFactory() override;
  [[nodiscard]] virtual std::unique_ptr<Strategy> create(const Options& options) const = 0;
  /// Adds the ops that the strategy's rewrites use.
  virtual void register_ops(OpRegistry& registry) const;
};

}  // namespace strata
