#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "files/file_io.hpp"
#include "foreign/imported_run.hpp"
#include "foreign/yaml_document.hpp"

namespace strata::host {
namespace {

void read_deepspeed_batch(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  if (const auto global = settings.integer({"train_batch_size"})) layout.global = *global;
  const auto micro = settings.integer({"train_micro_batch_size_per_gpu"});
  const auto accumulated = settings.integer({"gradient_accumulation_steps"});
  if (accumulated) layout.accumulated = *accumulated;
  if (micro) layout.micro = *micro;
  // DeepSpeed does not accumulate if only the global batch is given.
  if (layout.global && !micro && layout.ranks && *layout.ranks > 0) {
    layout.micro = std::max<std::int64_t>(*layout.global / (*layout.ranks * layout.accumulated.value_or(1)), 1);
  }
}

std::string place_word(ForeignSettings& settings, const std::string& path) {
  const std::string device = settings.text({path.c_str()});
  if (device == "cpu") return "host";
  if (device == "nvme") return "file";
  if (device.empty() || device == "none") return "none";
  settings.refuse(path, "\"cpu\", \"nvme\" or \"none\"");
}

void read_deepspeed_zero(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptionValues& options = run.layout.zero_options;
  const std::int64_t stage = settings.integer({"zero_optimization.stage"}).value_or(0);
  if (stage < 0 || stage > 3) settings.refuse("zero_optimization.stage", "0, 1, 2 or 3");
  run.layout.zero_stage = stage;
  if (stage == 0) return;
  const std::string states = place_word(settings, "zero_optimization.offload_optimizer.device");
  if (states != "none") options["offload_optimizer"] = states;
  const std::string parameters = place_word(settings, "zero_optimization.offload_param.device");
  if (parameters != "none" && stage == 3) options["offload_param"] = parameters;
  const auto folder =
      settings.word({"zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path"});
  if (folder && (states == "file" || parameters == "file")) options["offload_directory"] = *folder;
  if (const auto overlap = settings.chosen_flag({"zero_optimization.overlap_comm"})) options["overlap"] = *overlap;
  if (settings.flag({"zero_optimization.zero_quantized_weights"}) && stage == 3) options["quantized_weights"] = true;
  if (settings.flag({"zero_optimization.zero_quantized_gradients"})) options["quantized_gradients"] = true;
  const std::int64_t group = settings.integer({"zero_optimization.zero_hpz_partition_size"}).value_or(1);
  if (stage == 3 && group != 0) run.layout.partition = group;
}

void read_deepspeed_precision(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const bool fp16 = settings.flag({"fp16.enabled"});
  run.set_precision(settings.flag({"bf16.enabled", "bfloat16.enabled"}), fp16);
  if (settings.text({"data_types.grad_accum_dtype"}) == "bf16" && run.layout.precision) {
    (*run.layout.precision)["reduce"] = std::string("bf16");
  }
  const double scale = settings.number({"fp16.loss_scale"}).value_or(0);
  const auto power = settings.number({"fp16.initial_scale_power"});
  const auto window = settings.integer({"fp16.loss_scale_window"});
  if (!fp16) return;
  OptionValues& options = *run.layout.precision;
  options["loss_scale"] = std::string(scale > 0 ? "static" : "dynamic");
  constexpr double kLargestPower = 40;
  if (scale > 0) options["initial_scale"] = scale;
  if (scale == 0 && power) options["initial_scale"] = std::pow(2.0, std::min(*power, kLargestPower));
  if (window) options["growth_interval"] = *window;
}

void read_deepspeed_optimizer(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptimizerSection& optimizer = run.configuration.optimizer;
  if (const auto clip = settings.number({"gradient_clipping"})) optimizer.clip = *clip;
  if (!settings.has("optimizer.type")) return;
  OptionValues options;
  options["betas"] = settings.pair({"optimizer.params.betas"}).value_or(kTorchBetas);
  options["epsilon"] = settings.number({"optimizer.params.eps"}).value_or(kTorchEpsilon);
  run.set_optimizer("optimizer.type", settings.text({"optimizer.type"}), options);
  optimizer.lr = settings.number({"optimizer.params.lr"}).value_or(optimizer.lr);
  optimizer.weight_decay = settings.number({"optimizer.params.weight_decay"}).value_or(0);
}

void read_deepspeed_scheduler(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptimizerSection& optimizer = run.configuration.optimizer;
  ScheduleSection& schedule = optimizer.schedule;
  const std::string kind = settings.text({"scheduler.type"});
  if (kind.empty()) return;
  if (kind != "WarmupLR" && kind != "WarmupDecayLR" && kind != "WarmupCosineLR") {
    settings.remark("scheduler.type", "no schedule '" + kind + "'; the learning rate is constant");
    return;
  }
  constexpr std::int64_t kDefaultWarmup = 1000;
  schedule.kind = kind == "WarmupLR" ? "warmup" : kind == "WarmupDecayLR" ? "linear" : "cosine";
  schedule.warmup = settings.integer({"scheduler.params.warmup_num_steps"}).value_or(kDefaultWarmup);
  const std::string rise = settings.text({"scheduler.params.warmup_type"});
  schedule.warmup_type = rise == "linear" || kind == "WarmupCosineLR" ? WarmupType::linear : WarmupType::logarithmic;
  optimizer.lr = settings.number({"scheduler.params.warmup_max_lr"}).value_or(optimizer.lr);
  const double low = settings.number({"scheduler.params.warmup_min_lr"}).value_or(0);
  if (kind == "WarmupLR") schedule.min_lr = std::min(low, optimizer.lr);
  if (kind != "WarmupLR" && low > 0) settings.remark("scheduler.params.warmup_min_lr", "a warm-up rises from 0");
  if (kind == "WarmupCosineLR") {
    constexpr double kDefaultRatio = 1e-4;
    schedule.min_lr = optimizer.lr * settings.number({"scheduler.params.cos_min_ratio"}).value_or(kDefaultRatio);
  }
  if (const auto steps = settings.integer({"scheduler.params.total_num_steps"})) {
    run.configuration.run.steps = *steps;
    run.has_steps = true;
  }
}

/// The settings of a file of DeepSpeed, whoever names it.
void read_deepspeed(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  run.layout.tensor = settings.integer({"tensor_parallel.autotp_size"}).value_or(run.layout.tensor);
  if (const auto size = settings.integer({"sequence_parallel_size"})) {
    run.layout.context = *size;
    run.layout.context_options["attention"] = std::string("ulysses");
  }
  read_deepspeed_batch(run);
  read_deepspeed_zero(run);
  read_deepspeed_precision(run);
  read_deepspeed_optimizer(run);
  read_deepspeed_scheduler(run);
  run.configuration.run.log_every = settings.integer({"steps_per_print"}).value_or(run.configuration.run.log_every);
  run.configuration.log.tensorboard = settings.flag({"tensorboard.enabled"}) || run.configuration.log.tensorboard;
}

ImportReasons reasons() {
  return {
      {"zero_optimization.stage3_", "each block is gathered as a whole, zero.prefetch blocks ahead, and freed after"},
      {"zero_optimization.reduce_bucket_size", "buckets are measured in MiB: zero.bucket_mb"},
      {"zero_optimization.allgather", "parameters are gathered by the buckets of zero.bucket_mb"},
      {"zero_optimization.contiguous_gradients", "gradients always lie in flat buckets"},
      {"zero_optimization.reduce_scatter", "gradients of stage 2 and 3 are always reduce-scattered"},
      {"zero_optimization.round_robin_gradients", "buckets are divided evenly"},
      {"zero_optimization.sub_group_size", "states are copied by buckets"},
      {"zero_optimization.offload", "host memory is always pinned, and the number of buffers is planned"},
      {"activation_checkpointing", "the strategy recompute chooses what is recomputed, whatever the model's code says"},
      {"fp16.", "loss scaling has loss_scale, initial_scale, growth_interval and their factors only"},
      {"aio", "files are read and written by buckets"},
      {"flops_profiler", "`strata explain` counts FLOPs, `strata simulate` utilisation"},
      {"wall_clock_breakdown", "the log has the times of every step's parts"},
      {"tensorboard", "event files lie in run.output"},
      {"zero_allow_untested_optimizer", "every optimizer works with every stage"},
      {"wandb", "logs go to JSON and TensorBoard"}};
}

}  // namespace

ImportReasons import_deepspeed(ImportedRun& run) {
  // DeepSpeed does not clip unless it is told to.
  run.configuration.optimizer.clip = 0;
  read_deepspeed(run);
  return reasons();
}

void import_deepspeed_file(ImportedRun& run, const std::string& path) {
  const auto name = run.settings.word({path.c_str()});
  if (!name || name->empty()) return;
  std::filesystem::path file = run.settings.folder() / *name;
  if (!std::filesystem::exists(file)) file = *name;
  if (!std::filesystem::exists(file)) {
    run.settings.remark(path, "the file is not here, so its settings are missing; it can be imported by itself");
    return;
  }
  ForeignSettings settings(parse_yaml(read_text(file), file.string()));
  ImportedRun nested{settings, run.configuration, run.layout};
  read_deepspeed(nested);
  run.configuration = nested.configuration;
  run.layout = nested.layout;
  run.has_steps = run.has_steps || nested.has_steps;
  run.settings.add(settings.remarks(reasons()));
}

}  // namespace strata::host
