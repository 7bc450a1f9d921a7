#include "settings.hpp"

#include "strata/error.hpp"

namespace zero {

using namespace strata;

const OptionSchema& schema() {
  static const OptionSchema kSchema{
      option::integer("size", std::nullopt, 1, 65536, "Ranks along the axis: they share the batch and the storage."),
      option::integer("stage", 1, 1, 3,
                      "What the ranks shard: 1 the optimizer states, 2 gradients too, 3 parameters too (FSDP)."),
      option::word("axis", "dp", "Name of the mesh axis."),
      option::integer("replicate", 1, 1, 65536,
                      "Copies of the sharded model (HSDP): adds an axis of this size, named after the axis with "
                      "\"_replicate\", outside of it."),
      option::words("also_over", "Axes of other strategies, such as a context axis, that shard the storage too."),
      option::number("bucket_mb", 25.0, 0.001, 65536, "Largest size of a flat bucket's gradients in MiB."),
      option::boolean(
          "overlap", true,
          "Reduce each bucket as soon as its gradients are complete, overlapping with the rest of the backward pass."),
      option::integer("prefetch", 1, 0, 1024,
                      "Stage 3: how many blocks ahead of their use parameters start to be gathered."),
      option::boolean(
          "reshard_after_forward", true,
          "Stage 3: free gathered parameters after the forward pass and gather them again for the backward pass."),
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

}  // namespace zero
