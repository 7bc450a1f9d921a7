#include <map>
#include <string>

#include "foreign/imported_run.hpp"

namespace strata::host {
namespace {

/// The sharding of FSDP, as a stage of ZeRO.
struct Sharding {
  std::int64_t stage = 3;
  /// Parameters stay gathered between the two passes.
  bool keeps = false;
  /// Within a machine only.
  bool is_hybrid = false;
};

/// By PyTorch's words, and by the numbers that Accelerate has for them. FSDP2 has no such word.
const std::map<std::string, Sharding>& shardings() {
  static const Sharding full{};
  static const Sharding gradients{.keeps = true};
  static const Sharding none{.stage = 0};
  static const Sharding hybrid{.is_hybrid = true};
  static const Sharding hybrid_gradients{.keeps = true, .is_hybrid = true};
  static const std::map<std::string, Sharding> words = {{"", full},
                                                        {"full_shard", full},
                                                        {"1", full},
                                                        {"shard_grad_op", gradients},
                                                        {"2", gradients},
                                                        {"no_shard", none},
                                                        {"3", none},
                                                        {"hybrid_shard", hybrid},
                                                        {"4", hybrid},
                                                        {"hybrid_shard_zero2", hybrid_gradients},
                                                        {"5", hybrid_gradients}};
  return words;
}

void read_accelerate_sharding(ImportedRun& run, std::int64_t machines) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  const auto found = shardings().find(lower_case(settings.text({"fsdp_config.fsdp_sharding_strategy"})));
  if (found == shardings().end()) {
    settings.refuse("fsdp_config.fsdp_sharding_strategy",
                    "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, or 1 to 5");
  }
  const bool keeps = settings.text({"fsdp_config.fsdp_reshard_after_forward"}) == "false" || found->second.keeps;
  layout.zero_stage = found->second.stage;
  if (keeps && layout.zero_stage == 3) layout.zero_options["reshard_after_forward"] = false;
  if (found->second.is_hybrid) layout.replicas = machines;
}

void read_accelerate_fsdp(ImportedRun& run, std::int64_t machines) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  read_accelerate_sharding(run, machines);
  if (settings.flag({"fsdp_config.fsdp_offload_params"}) && layout.zero_stage == 3) {
    layout.zero_options["offload_param"] = layout.zero_options["offload_optimizer"] = std::string("host");
  }
  if (settings.flag({"fsdp_config.fsdp_activation_checkpointing"})) {
    layout.recompute = OptionValues{{"policy", std::string("full")}};
  }
}

void read_deepspeed_keys(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  layout.zero_stage = settings.integer({"deepspeed_config.zero_stage"}).value_or(layout.zero_stage);
  if (layout.zero_stage < 0 || layout.zero_stage > 3) settings.refuse("deepspeed_config.zero_stage", "0, 1, 2 or 3");
  const auto place = [&](const char* path, const char* option) {
    const std::string device = settings.text({path});
    if (device != "cpu" && device != "nvme") return;
    layout.zero_options[option] = std::string(device == "cpu" ? "host" : "file");
  };
  if (layout.zero_stage > 0) place("deepspeed_config.offload_optimizer_device", "offload_optimizer");
  if (layout.zero_stage == 3) place("deepspeed_config.offload_param_device", "offload_param");
  if (const auto steps = settings.integer({"deepspeed_config.gradient_accumulation_steps"}))
    layout.accumulated = *steps;
  if (const auto clip = settings.number({"deepspeed_config.gradient_clipping"})) {
    run.configuration.optimizer.clip = *clip;
  }
  import_deepspeed_file(run, "deepspeed_config.deepspeed_config_file");
}

void read_megatron_keys(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  layout.tensor = settings.integer({"megatron_lm_config.megatron_lm_tp_degree"}).value_or(1);
  layout.pipeline = settings.integer({"megatron_lm_config.megatron_lm_pp_degree"}).value_or(1);
  if (settings.flag({"megatron_lm_config.megatron_lm_sequence_parallelism"})) {
    layout.tensor_options["sequence_parallel"] = true;
  }
  if (settings.flag({"megatron_lm_config.megatron_lm_use_distributed_optimizer"})) layout.zero_stage = 1;
  if (settings.flag({"megatron_lm_config.megatron_lm_recompute_activations"})) {
    layout.recompute = OptionValues{{"policy", std::string("selective")}};
  }
  if (const auto count = settings.integer({"megatron_lm_config.megatron_lm_num_micro_batches"})) {
    layout.accumulated = *count;
  }
  if (const auto clip = settings.number({"megatron_lm_config.megatron_lm_gradient_clipping"})) {
    run.configuration.optimizer.clip = *clip;
  }
}

/// Sizes that newer versions give for any kind of parallelism.
void read_accelerate_sizes(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  const auto size = [&](const char* path, std::int64_t& target) { target = settings.integer({path}).value_or(target); };
  size("parallelism_config.parallelism_config_tp_size", layout.tensor);
  size("parallelism_config.parallelism_config_cp_size", layout.context);
  size("parallelism_config.parallelism_config_dp_replicate_size", layout.replicas);
  if (settings.integer({"parallelism_config.parallelism_config_dp_shard_size"}).value_or(1) > 1) {
    layout.zero_stage = 3;
    layout.shards_over_context = true;
  }
}

}  // namespace

ImportReasons import_accelerate(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  const std::string kind = lower_case(settings.text({"distributed_type"}));
  if (kind == "xla" || kind == "tpu") settings.refuse("distributed_type", "any but TPUs");
  if (const auto ranks = settings.integer({"num_processes"}); ranks && !layout.ranks) layout.ranks = *ranks;
  const std::int64_t machines = settings.integer({"num_machines"}).value_or(1);
  if (const auto steps = settings.integer({"gradient_accumulation_steps"})) layout.accumulated = *steps;
  if (kind == "fsdp" || (kind.empty() && settings.has_table("fsdp_config"))) read_accelerate_fsdp(run, machines);
  if (kind == "deepspeed") read_deepspeed_keys(run);
  if (kind == "megatron_lm") read_megatron_keys(run);
  if (settings.has_table("parallelism_config")) read_accelerate_sizes(run);
  const std::string precision = settings.text({"mixed_precision"});
  if (precision == "fp8") settings.remark("mixed_precision", "no fp8; bf16 stands for it");
  run.set_precision(precision == "bf16" || precision == "fp8", precision == "fp16");
  return {{"fsdp_config.fsdp_auto_wrap_policy", "the blocks of the model are gathered and recomputed one by one"},
          {"fsdp_config.fsdp_transformer_layer_cls", "the blocks of the model are gathered one by one"},
          {"fsdp_config.fsdp_backward_prefetch", "zero.prefetch blocks are gathered ahead in both passes"},
          {"fsdp_config.fsdp_forward_prefetch", "zero.prefetch blocks are gathered ahead in both passes"},
          {"fsdp_config.fsdp_state_dict_type", "each rank writes its pieces, and any layout resumes them"},
          {"fsdp_config.fsdp_sync_module_states", "all ranks make the same initial values"},
          {"fsdp_config.fsdp_cpu_ram_efficient_loading", "each rank reads only its pieces"},
          {"fsdp_config.fsdp_use_orig_params", "parameters always keep their names"},
          {"fsdp_config.fsdp_version", "there is one implementation, the strategy zero"},
          {"deepspeed_config.zero3_init_flag", "each rank makes only its pieces of the initial values"},
          {"deepspeed_config.zero3_save_16bit_model", "`strata export` writes any checkpoint in any type"},
          {"deepspeed_config.deepspeed", "`strata launch` starts the processes"},
          {"machine_rank", "`strata launch --hosts` numbers the hosts"},
          {"main_process", "`strata launch --hosts` finds them"},
          {"main_training_function", "there is no program of the user's"},
          {"rdzv_backend", "`strata launch` brings the processes together"},
          {"same_network", "the addresses of hosts are those that `strata launch --hosts` names"},
          {"num_machines", "`strata launch --hosts` names the hosts"},
          {"compute_environment", "`strata launch`, mpirun or Slurm start the processes"},
          {"dynamo", "the program of every rank is compiled ahead"},
          {"downcast_bf16", "a setting of TPUs"}};
}

}  // namespace strata::host
