#include "foreign/imported_run.hpp"

#include <algorithm>
#include <cctype>

namespace strata::host {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

void add_strategy(RunConfiguration& configuration, const char* plugin, OptionValues options) {
  configuration.strategies.push_back({.path = "strategy." + std::to_string(configuration.strategies.size()),
                                      .plugin = plugin,
                                      .options = std::move(options)});
}

void add_axis(RunConfiguration& configuration, const char* plugin, std::int64_t size, OptionValues options) {
  if (size == 1) return;
  options["size"] = size;
  add_strategy(configuration, plugin, std::move(options));
}

ConfigurationError mismatch(const std::string& key, const std::string& message) {
  return ConfigurationError(key + ": " + message);
}

std::int64_t checked(std::int64_t size) {
  if (size >= 1 && size <= kMostRanks) return size;
  throw mismatch("sizes", "found " + std::to_string(size) +
                              " for a degree of parallelism, a number of devices or a micro-batch; accepted: 1 to " +
                              std::to_string(kMostRanks));
}

/// Ranks that share a batch, from all that the file says.
std::int64_t data_ranks(ImportedRun& run) {
  ForeignLayout& layout = run.layout;
  for (const std::int64_t each :
       {layout.pipeline, layout.context, layout.tensor, layout.replicas, layout.expert, layout.partition, layout.micro,
        layout.ranks.value_or(1), layout.accumulated.value_or(1)}) {
    checked(each);
  }
  // Products of two of them fit into an integer.
  const std::int64_t model = checked(layout.pipeline * layout.context) * layout.tensor;
  const std::int64_t replicated = checked(checked(model) * layout.replicas);
  const std::int64_t least = checked(checked(replicated * layout.expert) * layout.partition);
  if (!layout.ranks) {
    const std::int64_t step = layout.micro * layout.accumulated.value_or(1);
    const bool is_known = layout.global && layout.accumulated && *layout.global % step == 0;
    layout.ranks = is_known ? *layout.global / step * model : least;
    if (!is_known) {
      run.settings.remark_on_file("number of devices", "the file does not say it; " + std::to_string(*layout.ranks) +
                                                           " is the least. --ranks gives another");
    }
  }
  if (*layout.ranks % least != 0 || *layout.ranks == 0) {
    throw mismatch("number of devices", "found " + std::to_string(*layout.ranks) + "; accepted: multiples of " +
                                            std::to_string(least) +
                                            ", the product of the degrees of parallelism and a partition of ZeRO++");
  }
  return *layout.ranks / model;
}

void set_batch(ImportedRun& run, std::int64_t replicas) {
  ForeignLayout& layout = run.layout;
  BatchSection& batch = run.configuration.batch;
  batch.micro = layout.micro;
  batch.global = layout.global.value_or(layout.micro * layout.accumulated.value_or(1) * replicas);
  const std::int64_t least = layout.micro * replicas;
  if (batch.global < 1 || batch.global % least != 0) {
    throw mismatch("global batch", "found " + std::to_string(batch.global) + "; accepted: multiples of " +
                                       std::to_string(least) + ", the micro-batch of " + std::to_string(layout.micro) +
                                       " on each of " + std::to_string(replicas) + " replicas");
  }
}

void add_data_axis(ImportedRun& run, std::int64_t replicas) {
  ForeignLayout& layout = run.layout;
  if (layout.zero_stage == 0) return add_axis(run.configuration, "ddp", replicas, {});
  OptionValues options = layout.zero_options;
  std::vector<std::string> others;
  if (layout.shards_over_context && layout.context > 1) others.emplace_back("cp");
  if (layout.expert > 1) others.emplace_back("ep");
  options["stage"] = layout.zero_stage;
  options["size"] = replicas / layout.replicas;
  if (layout.replicas > 1) options["replicate"] = layout.replicas;
  if (layout.partition > 1) options["hierarchical_partition"] = layout.partition;
  if (!others.empty()) options["also_over"] = others;
  add_strategy(run.configuration, "zero", std::move(options));
}

void set_defaults(ImportedRun& run) {
  RunConfiguration& configuration = run.configuration;
  configuration.device.plugin = "cuda";
  configuration.communicator.plugin = "nccl";
  if (configuration.optimizer.optimizer.plugin.empty()) run.set_optimizer("", "adamw");
  if (!run.has_model) {
    run.set_model("gpt2", {{"size", std::string("gpt2-124m")}});
    run.settings.remark_on_file("model", "the file does not say it; gpt2-124m stands for it in [model]");
  }
  if (!run.has_data) {
    configuration.data.dataset = {.path = "data", .plugin = "tokens", .options = {{"path", std::string("train.bin")}}};
    run.settings.remark_on_file("data", "data.path is a file of tokens that `strata tokenize` makes of your texts");
  }
  if (run.has_steps) return;
  std::int64_t& steps = configuration.run.steps;
  steps = std::max(steps, 10 * configuration.optimizer.schedule.warmup);
  run.settings.remark_on_file("run.steps", "the file does not say it in steps; it has " + std::to_string(steps));
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return std::tolower(each); });
  return text;
}

void ImportedRun::set_model(std::string plugin, OptionValues options) {
  configuration.model = {.path = "model", .plugin = std::move(plugin), .options = std::move(options)};
  has_model = true;
}

void ImportedRun::set_optimizer(const std::string& path, const std::string& plugin, OptionValues options) {
  static const std::map<std::string, std::string> kPlugins = {
      {"adamw", "adamw"}, {"adam", "adamw"},          {"fusedadam", "adamw"}, {"lion", "lion"},
      {"sgd", "sgd"},     {"adafactor", "adafactor"}, {"muon", "muon"}};
  const auto found = kPlugins.find(lower_case(plugin));
  if (found == kPlugins.end()) settings.remark(path, "no optimizer '" + plugin + "'; adamw stands for it");
  const std::string chosen = found == kPlugins.end() ? "adamw" : found->second;
  if (chosen != "adamw" && chosen != "lion") options.clear();
  if (chosen == "lion") options.erase("epsilon");
  configuration.optimizer.optimizer = {.path = "optimizer", .plugin = chosen, .options = std::move(options)};
}

void ImportedRun::set_precision(bool bf16, bool fp16) {
  if (!bf16 && !fp16) return;
  if (!layout.precision) layout.precision.emplace();
  (*layout.precision)["compute"] = std::string(bf16 ? "bf16" : "fp16");
}

void complete_run(ImportedRun& run) {
  ForeignLayout& layout = run.layout;
  RunConfiguration& configuration = run.configuration;
  const std::int64_t replicas = data_ranks(run);
  set_batch(run, replicas);
  set_defaults(run);
  add_axis(configuration, "pipeline", layout.pipeline, layout.pipeline_options);
  add_data_axis(run, replicas / layout.expert);
  add_axis(configuration, "expert", layout.expert, {});
  add_axis(configuration, "context", layout.context, layout.context_options);
  add_axis(configuration, "tensor", layout.tensor, layout.tensor_options);
  if (layout.lora) add_strategy(configuration, "lora", *layout.lora);
  if (layout.recompute) add_strategy(configuration, "recompute", *layout.recompute);
  if (layout.precision) add_strategy(configuration, "precision", *layout.precision);
}

}  // namespace strata::host
