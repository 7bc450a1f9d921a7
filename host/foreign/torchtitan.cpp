#include <algorithm>
#include <cmath>
#include <string>

#include "foreign/imported_run.hpp"

namespace strata::host {
namespace {

OptionValues llama(std::int64_t layers, std::int64_t embed, std::int64_t heads, std::int64_t ffn) {
  constexpr std::int64_t kKvHeads = 8;
  constexpr std::int64_t kVocabulary = 128256;
  constexpr double kRopeBase = 500000;
  return {{"layers", layers}, {"embed", embed},       {"heads", heads},        {"kv_heads", kKvHeads},
          {"ffn", ffn},       {"vocab", kVocabulary}, {"rope_base", kRopeBase}};
}

/// Published sizes of Llama 3, as in its technical report (2024), table 3.
std::optional<OptionValues> flavor_options(const std::string& flavor) {
  if (flavor == "8b") return OptionValues{{"size", std::string("llama3-8b")}};
  if (flavor == "70b") return llama(80, 8192, 64, 28672);
  if (flavor == "405b") return llama(126, 16384, 128, 53248);
  return std::nullopt;
}

void read_titan_model(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string name = settings.text({"model.name"});
  const std::string flavor = lower_case(settings.text({"model.flavor"}));
  if (name.rfind("llama3", 0) != 0) settings.refuse("model.name", "\"llama3\"");
  auto options = flavor_options(flavor);
  if (!options && flavor != "debugmodel")
    settings.refuse("model.flavor", "\"8B\", \"70B\", \"405B\" or \"debugmodel\"");
  if (!options) {
    options = OptionValues{{"layers", std::int64_t{6}}, {"embed", std::int64_t{256}}, {"heads", std::int64_t{16}}};
    settings.remark("model.flavor", "6 blocks of width 256; the vocabulary is that of the data");
  }
  (*options)["context"] = settings.integer({"training.seq_len"}).value_or(2048);
  run.set_model("llama", *options);
  if (!settings.text({"model.converters"}).empty() || settings.has("float8")) {
    settings.remark("model.converters", "no products in float8; they are in bf16");
  }
}

void read_titan_parallelism(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  layout.tensor = settings.integer({"parallelism.tensor_parallel_degree"}).value_or(1);
  layout.tensor_options["sequence_parallel"] = true;
  if (settings.flag({"parallelism.disable_loss_parallel"})) layout.tensor_options["vocab_parallel"] = false;
  layout.pipeline = settings.integer({"parallelism.pipeline_parallel_degree"}).value_or(1);
  layout.context = settings.integer({"parallelism.context_parallel_degree"}).value_or(1);
  const std::string rotation = settings.text({"parallelism.context_parallel_rotate_method"});
  layout.context_options["attention"] = std::string(rotation == "alltoall" ? "ring" : "all_gather");
  layout.replicas = settings.integer({"parallelism.data_parallel_replicate_degree"}).value_or(1);
  layout.shards_over_context = true;
  const std::int64_t shards = settings.integer({"parallelism.data_parallel_shard_degree"}).value_or(-1);
  layout.zero_stage = shards == 1 && layout.context == 1 ? 0 : 3;
  const std::string reshard = settings.text({"parallelism.fsdp_reshard_after_forward"});
  if (reshard == "never" || (reshard != "always" && layout.pipeline > 1)) {
    layout.zero_options["reshard_after_forward"] = false;
  }
  if (settings.flag({"training.enable_cpu_offload"})) {
    layout.zero_options["offload_param"] = layout.zero_options["offload_optimizer"] = std::string("host");
  }
  if (shards > 0 && !layout.ranks) {
    layout.ranks = shards * layout.replicas * layout.tensor * layout.pipeline * layout.context;
  }
  // Without shards, all replicas are alike.
  if (layout.zero_stage == 0) layout.replicas = 1;
}

void read_titan_schedule(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string name = lower_case(settings.text({"parallelism.pipeline_parallel_schedule"}));
  if (run.layout.pipeline == 1) return;
  static const std::map<std::string, std::pair<std::string, std::int64_t>> kSchedules = {
      {"", {"1f1b", 1}},
      {"1f1b", {"1f1b", 1}},
      {"interleaved1f1b", {"interleaved", 2}},
      {"gpipe", {"gpipe", 1}},
      {"zbvzerobubble", {"zbv", 1}}};
  const auto found = kSchedules.find(name);
  if (found == kSchedules.end()) {
    settings.remark("parallelism.pipeline_parallel_schedule", "no schedule of this name; 1f1b stands for it");
    return;
  }
  const auto& [schedule, chunks] = found->second;
  run.layout.pipeline_options["schedule"] = schedule;
  if (chunks > 1) run.layout.pipeline_options["virtual_stages"] = chunks;
}

void read_titan_batch(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  const std::int64_t local = settings.integer({"training.local_batch_size", "training.batch_size"}).value_or(8);
  layout.micro =
      layout.pipeline > 1 ? settings.integer({"parallelism.pipeline_parallel_microbatch_size"}).value_or(1) : local;
  layout.accumulated = std::max<std::int64_t>(local / std::max<std::int64_t>(layout.micro, 1), 1);
  const std::int64_t global = settings.integer({"training.global_batch_size"}).value_or(-1);
  if (global > 0) layout.global = global;
}

void read_titan_optimizer(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  RunConfiguration& configuration = run.configuration;
  OptimizerSection& optimizer = configuration.optimizer;
  const std::vector<double> betas = {settings.number({"optimizer.beta1"}).value_or(0.9),
                                     settings.number({"optimizer.beta2"}).value_or(0.95)};
  const std::string name = settings.text({"optimizer.name"});
  run.set_optimizer("optimizer.name", name.empty() ? "AdamW" : name,
                    {{"betas", betas}, {"epsilon", settings.number({"optimizer.eps"}).value_or(kTorchEpsilon)}});
  optimizer.lr = settings.number({"optimizer.lr"}).value_or(8e-4);
  optimizer.weight_decay = settings.number({"optimizer.weight_decay"}).value_or(0.1);
  optimizer.clip = settings.number({"training.max_norm"}).value_or(1);
  configuration.run.steps = settings.integer({"training.steps"}).value_or(10000);
  run.has_steps = true;
  ScheduleSection& schedule = optimizer.schedule;
  const std::string kind = settings.text({"lr_scheduler.decay_type"});
  const auto ratio = settings.number({"lr_scheduler.decay_ratio"});
  schedule.warmup = std::min(settings.integer({"lr_scheduler.warmup_steps"}).value_or(200), configuration.run.steps);
  schedule.kind = kind == "cosine" ? "cosine" : "linear";
  schedule.min_lr = optimizer.lr * settings.number({"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"}).value_or(0);
  if (kind == "sqrt") settings.remark("lr_scheduler.decay_type", "no decay by a square root; it is linear");
  if (!ratio || *ratio >= 1 || schedule.warmup >= configuration.run.steps) return;
  if (kind == "cosine") settings.remark("lr_scheduler.decay_ratio", "the decay after a stable part is linear");
  schedule.kind = "wsd";
  const auto steps = static_cast<double>(configuration.run.steps);
  schedule.decay = std::clamp<std::int64_t>(std::llround(*ratio * steps), 1, configuration.run.steps - schedule.warmup);
}

void read_titan_recompute(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string mode = settings.text({"activation_checkpoint.mode"});
  if (mode == "none") return;
  run.layout.recompute = OptionValues{{"policy", std::string(mode == "full" ? "full" : "selective")}};
  if (mode != "full") {
    settings.remark("activation_checkpoint.mode",
                    "the policy selective repeats recompute.ops, by default attention; torchtitan repeats every second "
                    "layer or all but products");
  }
}

void read_titan_run(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  RunConfiguration& configuration = run.configuration;
  configuration.run.output = settings.text({"job.dump_folder"});
  configuration.run.log_every = settings.integer({"metrics.log_freq"}).value_or(configuration.run.log_every);
  configuration.log.tensorboard = settings.flag({"metrics.enable_tensorboard"});
  configuration.run.seed = settings.integer({"training.seed"}).value_or(configuration.run.seed);
  const std::int64_t interval = settings.integer({"checkpoint.interval"}).value_or(500);
  if (settings.flag({"checkpoint.enable", "checkpoint.enable_checkpoint"}))
    configuration.run.checkpoint_every = interval;
  const std::string mode = settings.text({"checkpoint.async_mode"});
  if (mode == "disabled") configuration.run.checkpoint_mode = CheckpointMode::foreground;
  const std::int64_t every = settings.integer({"validation.freq"}).value_or(10);
  if (settings.flag({"validation.enabled", "validation.enable"})) configuration.run.eval_every = every;
}

}  // namespace

ImportReasons import_torchtitan(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  read_titan_parallelism(run);
  read_titan_model(run);
  read_titan_schedule(run);
  read_titan_batch(run);
  read_titan_optimizer(run);
  read_titan_recompute(run);
  read_titan_run(run);
  const std::string type = settings.text({"training.mixed_precision_param"});
  run.set_precision(type != "float32", false);
  if (settings.text({"training.mixed_precision_reduce"}) == "bfloat16" && run.layout.precision) {
    (*run.layout.precision)["reduce"] = std::string("bf16");
  }
  return {
      {"parallelism.enable_async_tensor_parallel", "tensor.overlap_chunks overlaps products with collectives"},
      {"parallelism.pipeline_parallel_layers", "pipeline.virtual_stages and pipeline.split divide the blocks"},
      {"parallelism.expert", "the model has no experts"},
      {"training.dataset", "data.path is a file of tokens that `strata tokenize` makes of your texts"},
      {"training.compile", "the program of every rank is compiled ahead"},
      {"training.deterministic", "results are always the same on the same devices"},
      {"compile", "the program of every rank is compiled ahead"},
      {"float8", "no products in float8"},
      {"quantize", "no products in float8"},
      {"profiling", "`strata train` has the times of every step's parts in its log, `strata simulate --trace` a trace"},
      {"model.", "`strata import` reads the folder of Hugging Face, and data.tokenizer names a tokenizer"},
      {"job.", "run.name names a run"},
      {"metrics.", "event files lie in run.output"},
      {"checkpoint.", "checkpoints lie in run.output; `strata export` writes any in any type"},
      {"validation.", "data.validation_paths names files, run.eval_batches limits an evaluation"},
      {"activation_checkpoint.", "recompute.ops and recompute.every choose what is repeated"},
      {"comm.", "communicators have a timeout of their own"}};
}

}  // namespace strata::host
