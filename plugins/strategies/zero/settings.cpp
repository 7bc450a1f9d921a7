#include "settings.hpp"

#include "strata/error.hpp"

namespace zero {

using namespace strata;

const OptionSchema& schema() {
  static const OptionSchema kSchema{
      {"size",
       OptionType::integer,
       std::nullopt,
       "Ranks along the axis: they share the batch and the storage.",
       1,
       65536,
       {}},
      {"stage",
       OptionType::integer,
       OptionValue(std::int64_t{1}),
       "What is dealt to the ranks: 1 the optimizer's states, 2 gradients too, 3 parameters too (FSDP).",
       1,
       3,
       {}},
      {"axis", OptionType::word, OptionValue(std::string("dp")), "Name of the mesh axis.", {}, {}, {}},
      {"replicate",
       OptionType::integer,
       OptionValue(std::int64_t{1}),
       "Copies of the sharded model (HSDP): adds an axis of this size, named after the axis with \"_replicate\", "
       "outside "
       "of it.",
       1,
       65536,
       {}},
      {"also_over",
       OptionType::words,
       OptionValue(std::vector<std::string>{}),
       "Axes of other strategies, such as a context axis, over which storage is dealt too.",
       {},
       {},
       {}},
      {"bucket_mb",
       OptionType::number,
       OptionValue(25.0),
       "Parameters lie in flat buckets whose gradients have at most this many MiB.",
       0.001,
       65536,
       {}},
      {"overlap",
       OptionType::boolean,
       OptionValue(true),
       "Reduce each bucket as soon as its gradients are complete, beside the rest of the backward pass.",
       {},
       {},
       {}},
      {"prefetch",
       OptionType::integer,
       OptionValue(std::int64_t{1}),
       "Stage 3: blocks ahead of their use at which parameters begin to be gathered.",
       0,
       1024,
       {}},
      {"reshard_after_forward",
       OptionType::boolean,
       OptionValue(true),
       "Stage 3: free gathered parameters after the forward pass and gather them again for the backward pass.",
       {},
       {},
       {}},
      {"hierarchical_partition",
       OptionType::integer,
       OptionValue(std::int64_t{1}),
       "Stage 3: groups of this many neighbouring ranks (a node) keep a second set of shards among them, from which "
       "the "
       "backward pass gathers (ZeRO++ hpZ); 1 for none.",
       1,
       65536,
       {}},
      {"offload_optimizer",
       OptionType::word,
       OptionValue(std::string("none")),
       "Where the optimizer's states lie: none (on the device), host (in the host's memory) or file (on disk).",
       {},
       {},
       {"none", "host", "file"}},
      {"offload_param",
       OptionType::word,
       OptionValue(std::string("none")),
       "Stage 3: where the parameters lie; each block's are brought to the device ahead of their use.",
       {},
       {},
       {"none", "host", "file"}},
      {"offload_directory",
       OptionType::word,
       OptionValue(std::string()),
       "Directory of the files of offload_optimizer and offload_param, one without a name for each rank; empty: "
       "run.output.",
       {},
       {},
       {}},
      {"quantized_weights",
       OptionType::boolean,
       OptionValue(false),
       "Stage 3: gather parameters as 8-bit integers with a scale a block (ZeRO++ qwZ); changes results slightly.",
       {},
       {},
       {}},
      {"quantized_gradients",
       OptionType::boolean,
       OptionValue(false),
       "Reduce gradients as 4-bit integers with a scale a block (ZeRO++ qgZ), each once a hop; changes results.",
       {},
       {},
       {}},
      {"quantization_block",
       OptionType::integer,
       OptionValue(std::int64_t{256}),
       "Numbers that share a scale in quantised communication; even.",
       2,
       1048576,
       {}},
      {"quantization",
       OptionType::word,
       OptionValue(std::string("on")),
       "off: quantised communication's collectives carry numbers as they are; on: they do so for f64 only, in which "
       "stacks are verified; always: they quantise f64 too.",
       {},
       {},
       {"on", "off", "always"}}};
  return kSchema;
}

namespace {

QuantizationSettings read_quantization(const Options& options, int stage) {
  QuantizationSettings settings;
  settings.weights = options.boolean("quantized_weights");
  settings.gradients = options.boolean("quantized_gradients");
  settings.block = options.integer("quantization_block");
  settings.off = options.word("quantization") == "off";
  settings.spares_f64 = options.word("quantization") == "on";
  if (settings.weights && stage != 3) {
    throw ConfigurationError("quantized_weights: found true with stage " + std::to_string(stage) +
                             "; accepted: false, or stage 3: in other stages what is gathered replaces the values that "
                             "are trained, and quantisation would undo small updates");
  }
  if (settings.block % 2 != 0) {
    throw ConfigurationError("quantization_block: found " + std::to_string(settings.block) +
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
  throw ConfigurationError("offload_param: found \"" + std::string(to_string(settings.offload_param)) +
                           "\" with stage " + std::to_string(settings.stage) +
                           "; accepted: \"none\", or stage 3, the only one that gathers parameters for each block");
}

}  // namespace

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
    throw ConfigurationError("hierarchical_partition: found " + std::to_string(settings.hierarchical_partition) +
                             " with stage " + std::to_string(settings.stage) +
                             "; accepted: 1, or stage 3, the only one that gathers parameters");
  }
  if (settings.size % settings.hierarchical_partition != 0) {
    throw ConfigurationError("hierarchical_partition: found " + std::to_string(settings.hierarchical_partition) +
                             "; accepted: a divisor of size (" + std::to_string(settings.size) + ")");
  }
  return settings;
}

}  // namespace zero
