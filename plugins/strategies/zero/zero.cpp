#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/wire_format.hpp"
#include "strata/error.hpp"
#include "strata/lowering.hpp"
#include "strata/options.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace zero {
namespace {

using namespace strata;

/// Which collectives are quantised.
struct QuantizationSettings {
  bool weights = false;
  bool gradients = false;
  /// Numbers per scale.
  std::int64_t block = 256;
  /// True: never quantises, but uses the same collectives.
  bool off = false;
  /// True: does not quantise f64.
  bool spares_f64 = true;
};

/// The plugin's options, checked individually and together.
struct Settings {
  int stage = 1;
  std::string axis;
  int size = 1;
  /// Number of copies of the sharded model, each on `size` ranks.
  int replicate = 1;
  /// Axes of other strategies that also shard the storage.
  std::vector<std::string> also_over;
  double bucket_mb = 25;
  bool overlap = true;
  int prefetch = 1;
  bool reshard_after_forward = true;
  /// Ranks of a node that share a secondary copy of the parameters; 1: no such copy.
  int hierarchical_partition = 1;
  /// Where optimizer states and parameters are stored.
  MemoryPlace offload_optimizer = MemoryPlace::device;
  MemoryPlace offload_param = MemoryPlace::device;
  std::string offload_directory;
  QuantizationSettings quantization;
};

OptionSchema option_schema() {
  return {
      option::axis_size("Ranks along the axis: they share the batch and the storage."),
      option::integer("stage", 1, 1, 3,
                      "What the ranks shard: 1 the optimizer states, 2 gradients too, 3 parameters too (FSDP)."),
      option::axis_name("dp"),
      option::integer("replicate", 1, 1, 65536,
                      "Copies of the sharded model (HSDP): adds an axis of this size, named after the axis with "
                      "\"_replicate\", outside of it."),
      option::words("also_over", "Axes of other strategies, such as a context axis, that shard the storage too."),
      option::number("bucket_mb", 25.0, 0.001, 65536, "Largest size of a flat bucket's gradients in MiB."),
      option::boolean(
          "overlap", true,
          "Reduce each bucket as soon as its gradients are complete, overlapping with the rest of the backward pass; "
          "stages 1 and 2 also gather updated values beside the next forward pass."),
      option::integer("prefetch", 1, 0, 1024,
                      "Stage 3: how many blocks ahead of their use parameters start to be gathered."),
      option::boolean("reshard_after_forward", true,
                      "Stage 3: free gathered parameters after each block and gather them again for the backward pass; "
                      "false: gather "
                      "them once per step."),
      option::integer("hierarchical_partition", 1, 1, 65536,
                      "Stage 3: groups of this many neighbouring ranks (a node) keep a secondary copy of the "
                      "parameters, sharded within the group, from which the backward pass gathers (ZeRO++ hpZ); "
                      "1: no such copy."),
      option::word("offload_optimizer", "none",
                   "Where the optimizer states are stored: none (on the device), host (in the host's memory) or "
                   "file (on disk).",
                   {"none", "host", "file"}),
      option::word("offload_param", "none",
                   "Stage 3: where the parameters are stored; each block's are copied to the device ahead of use.",
                   {"none", "host", "file"}),
      {.name = "offload_directory",
       .type = OptionType::word,
       .default_value = OptionValue(std::string()),
       .documentation =
           "Directory of the files of offload_optimizer and offload_param, one nameless file per rank; empty: "
           "run.output.",
       .may_differ = true},
      option::boolean("quantized_weights", false,
                      "Stage 3: gather parameters as 8-bit integers with one scale per block (ZeRO++ qwZ); changes "
                      "results slightly."),
      option::boolean(
          "quantized_gradients", false,
          "Reduce gradients as 4-bit integers with one scale per block (ZeRO++ qgZ), once per hop; changes results."),
      option::integer("quantization_block", 256, 2, 1048576,
                      "Numbers that share a scale in quantised communication; even."),
      option::word("quantization", "on",
                   "on: quantised communication quantises all types but f64, in which stacks are verified; "
                   "always: it quantises f64 too; off: it runs the same collectives without quantising.",
                   {"on", "off", "always"})};
}

QuantizationSettings read_quantization(const Options& options, int stage) {
  QuantizationSettings settings;
  settings.weights = options.boolean("quantized_weights");
  settings.gradients = options.boolean("quantized_gradients");
  settings.block = options.integer("quantization_block");
  settings.off = options.word("quantization") == "off";
  settings.spares_f64 = options.word("quantization") == "on";
  if (settings.weights && stage != 3) {
    throw OptionError("quantized_weights",
                      "found true with stage " + std::to_string(stage) +
                          "; accepted: false, or stage 3: in other stages what is gathered replaces the values that "
                          "are trained, and quantisation would undo small updates");
  }
  if (settings.block % 2 != 0) {
    throw OptionError("quantization_block", "found " + std::to_string(settings.block) +
                                                "; accepted: an even number, since two 4-bit integers share a byte");
  }
  return settings;
}

MemoryPlace read_place(const Options& options, const std::string& option) {
  const std::string& word = options.word(option);
  if (word == "host") return MemoryPlace::host;
  return word == "file" ? MemoryPlace::file : MemoryPlace::device;
}

void require_stage_for_offload(const Settings& settings) {
  if (settings.offload_param == MemoryPlace::device || settings.stage == 3) return;
  throw OptionError("offload_param",
                    "found \"" + std::string(to_string(settings.offload_param)) + "\" with stage " +
                        std::to_string(settings.stage) +
                        "; accepted: \"none\", or stage 3, the only one that gathers parameters for each block");
}

/// Reads the options. \throws ConfigurationError if they contradict each other.
Settings read_settings(const Options& options) {
  Settings settings;
  settings.stage = static_cast<int>(options.integer("stage"));
  settings.axis = options.word("axis");
  settings.size = static_cast<int>(options.integer("size"));
  settings.replicate = static_cast<int>(options.integer("replicate"));
  settings.also_over = options.words("also_over");
  settings.bucket_mb = options.number("bucket_mb");
  settings.overlap = options.boolean("overlap");
  settings.prefetch = static_cast<int>(options.integer("prefetch"));
  settings.reshard_after_forward = options.boolean("reshard_after_forward");
  settings.hierarchical_partition = static_cast<int>(options.integer("hierarchical_partition"));
  settings.offload_optimizer = read_place(options, "offload_optimizer");
  settings.offload_param = read_place(options, "offload_param");
  settings.offload_directory = options.word("offload_directory");
  require_stage_for_offload(settings);
  settings.quantization = read_quantization(options, settings.stage);
  if (settings.hierarchical_partition > 1 && settings.stage != 3) {
    throw OptionError("hierarchical_partition", "found " + std::to_string(settings.hierarchical_partition) +
                                                    " with stage " + std::to_string(settings.stage) +
                                                    "; accepted: 1, or stage 3, the only one that gathers parameters");
  }
  if (settings.size % settings.hierarchical_partition != 0) {
    throw OptionError("hierarchical_partition", "found " + std::to_string(settings.hierarchical_partition) +
                                                    "; accepted: a divisor of size (" + std::to_string(settings.size) +
                                                    ")");
  }
  return settings;
}

using wire::EncodedNumbers;
using wire::Numbers;
using wire::WireFormat;

// --- quantised communication of ZeRO++, which replaces collectives of buckets (Wang et al., "ZeRO++: Extremely
// Efficient Collective Communication for Giant Model Training", 2023)

constexpr int kWeightBits = 8;
constexpr int kGradientBits = 4;

/// All-gathers the pieces, in the order of the ranks.
void gather(ConversionContext& context, std::optional<BlockQuantization> quantization) {
  const PlannedCollective& planned = context.planned();
  const WireFormat format(context, quantization, planned.input_elements);
  const EncodedNumbers own = format.encode({context.input(), planned.dtype, 1});
  format.all_gather(own, planned.axes, {context.output(), planned.dtype, context.mesh().size(planned.axes)});
}

/// Reduce-scatters by all_to_all: each rank sends every piece directly to its owner, which sums. A ring would quantise
/// the partial sum again in every hop. With several axes the innermost one comes first, so that the fewest bytes cross
/// the slowest links. Before each exchange, pieces are in rank order, outermost axis first.
void reduce_scatter(ConversionContext& context, std::optional<BlockQuantization> quantization) {
  const PlannedCollective& planned = context.planned();
  const WireFormat format(context, quantization, planned.output_elements);
  Numbers pieces{context.input(), planned.dtype, context.mesh().size(planned.axes)};
  for (auto axis = planned.axes.rbegin(); axis != planned.axes.rend(); ++axis) {
    const std::int64_t outer = pieces.runs / context.mesh().size(*axis);
    EncodedNumbers encoded = format.encode(pieces);
    if (outer > 1) encoded = format.pack(encoded, *axis);
    pieces = outer > 1 ? format.add_sums(outer) : Numbers{context.output(), planned.dtype, 1};
    format.add_up(format.all_to_all(encoded, *axis), pieces);
  }
}

/// ZeRO: the ranks of a data-parallel axis share optimizer states, gradients and parameters instead of each holding all
/// (Rajbhandari et al., "ZeRO", SC 2020). PyTorch calls stage 3 FSDP (Zhao et al., VLDB 2023).
class Zero final : public Strategy {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Zero(const Options& options) : settings_(read_settings(options)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override {
    std::vector<MeshAxis> axes = sharding_axes();
    if (settings_.replicate > 1) axes.insert(axes.begin(), {settings_.axis + "_replicate", settings_.replicate});
    return axes;
  }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules;
    for (const MeshAxis& axis : axes()) rules.push_back({"batch", axis.name, 20, Distribution::block, {}});
    return rules;
  }

  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override {
    return GradientBuckets{static_cast<std::int64_t>(settings_.bucket_mb * 1024 * 1024), settings_.overlap};
  }

  /// Two hops with 4 bits, each with an error of at most a fourteenth of the largest number of a block.
  [[nodiscard]] double gradient_error() const override { return settings_.quantization.gradients ? 2.0 / 14 : 0; }

  [[nodiscard]] std::optional<ParameterStorage> storage(const ParameterDescription& /*parameter*/) const override {
    ParameterStorage storage;
    storage.sharding = static_cast<Sharding>(settings_.stage);
    storage.axes = storage_axes();
    if (settings_.hierarchical_partition > 1) storage.secondary_axes = {settings_.axis};
    storage.prefetch = settings_.stage == 3 ? settings_.prefetch : settings_.overlap ? 1 : 0;
    storage.reshard_after_forward = settings_.reshard_after_forward;
    storage.states_place = settings_.offload_optimizer;
    storage.values_place = settings_.offload_param;
    storage.directory = settings_.offload_directory;
    return storage;
  }

  [[nodiscard]] Conversion convert(const PlannedCollective& collective) const override {
    if (!is_quantized(collective)) return {};
    return [this](ConversionContext& context) {
      const QuantizationSettings& settings = settings_.quantization;
      const bool exact = settings.off || (settings.spares_f64 && context.planned().dtype == DType::f64);
      const auto quantization = [&](int bits) {
        return exact ? std::nullopt : std::optional(BlockQuantization{bits, settings.block});
      };
      if (context.planned().kind == CollectiveKind::all_gather) {
        gather(context, quantization(kWeightBits));
      } else {
        reduce_scatter(context, quantization(kGradientBits));
      }
    };
  }

 private:
  /// The strategy's sharding axes, outermost first: one, or two with a hierarchical partition.
  [[nodiscard]] std::vector<MeshAxis> sharding_axes() const {
    const int within = settings_.hierarchical_partition;
    if (within == 1) return {{settings_.axis, settings_.size}};
    return {{settings_.axis + "_nodes", settings_.size / within}, {settings_.axis, within}};
  }

  /// sharding_axes() and the axes of other strategies that also shard the storage.
  [[nodiscard]] std::vector<Axis> storage_axes() const {
    std::vector<Axis> axes;
    for (const MeshAxis& axis : sharding_axes()) axes.push_back(axis.name);
    axes.insert(axes.end(), settings_.also_over.begin(), settings_.also_over.end());
    return axes;
  }

  [[nodiscard]] bool is_quantized(const PlannedCollective& collective) const {
    const std::vector<Axis> storage = storage_axes();
    const std::vector<Axis>& axes = collective.axes;
    if (!std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) { return contains(storage, axis); })) return false;
    if (collective.kind == CollectiveKind::reduce_scatter) {
      return settings_.quantization.gradients && collective.content == BufferKind::gradient;
    }
    // A gather from secondary pieces stays as it is. It stays within a node, and it yields the values that the forward
    // pass used.
    const std::vector<MeshAxis> own = sharding_axes();
    const bool from_storage = std::all_of(
        own.begin(), own.end(), [&](const MeshAxis& axis) { return axis.size == 1 || contains(axes, axis.name); });
    return settings_.quantization.weights && from_storage && collective.kind == CollectiveKind::all_gather &&
           collective.content == BufferKind::parameter && is_floating_point(collective.dtype);
  }

  Settings settings_;
};

class ZeroFactory final : public FactoryOf<StrategyFactory, Zero> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::replicas; }
  /// All stages, with the states on the device and, where one needs the least memory, in the host's. Stage 3 also
  /// with copies of the sharded model on each node (HSDP). Ranks that share a sequence hold the same parameters, so
  /// they share the storage too.
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<std::string> sequence_axes;
    for (const auto& [axis, purpose] : context.axes) {
      if (purpose == PlanPurpose::sequence) sequence_axes.push_back(axis);
    }
    std::vector<PlanProposal> found;
    const auto propose = [&](std::int64_t stage, std::map<std::string, OptionValue> options) {
      options.try_emplace("size", std::int64_t{context.devices});
      options["stage"] = stage;
      if (!sequence_axes.empty()) options["also_over"] = sequence_axes;
      found.push_back({std::move(options), context.devices});
    };
    // From the fastest to the one that needs the least memory.
    propose(1, {});
    propose(2, {});
    const int nodes = context.devices / context.devices_per_node;
    if (nodes > 1 && context.devices % context.devices_per_node == 0) {
      propose(3, {{"size", std::int64_t{context.devices_per_node}}, {"replicate", std::int64_t{nodes}}});
      propose(3, {{"hierarchical_partition", std::int64_t{context.devices_per_node}}});
    }
    propose(3, {{"reshard_after_forward", false}});
    propose(3, {});
    propose(1, {{"offload_optimizer", "host"}});
    propose(3, {{"offload_optimizer", "host"}, {"offload_param", "host"}});
    return found;
  }
};

}  // namespace
}  // namespace zero

STRATA_PLUGIN(strategy, "zero", "0.1.0", "Apache-2.0",
              "ZeRO and FSDP: optimizer states, gradients and parameters sharded over the ranks that share the batch.",
              zero::ZeroFactory);
