#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "foreign/imported_run.hpp"

namespace strata::host {
namespace {

/// Parts of names on Hugging Face, and the sizes of model plugins that have their fields. The first that fits counts.
struct KnownModel {
  const char* part;
  const char* plugin;
  const char* size;
};
constexpr std::array kKnownModels{KnownModel{"llama-2-7b", "llama", "llama2-7b"},
                                  KnownModel{"llama-3.2-1b", "llama", "llama3.2-1b"},
                                  KnownModel{"llama-3.1-8b", "llama", "llama3.1-8b"},
                                  KnownModel{"llama-3-8b", "llama", "llama3-8b"},
                                  KnownModel{"mistral-7b", "llama", "mistral-7b"},
                                  KnownModel{"qwen2-0.5b", "llama", "qwen2-0.5b"},
                                  KnownModel{"qwen3-0.6b", "llama", "qwen3-0.6b"},
                                  KnownModel{"smollm2-135m", "llama", "smollm2-135m"},
                                  KnownModel{"smollm3-3b", "llama", "smollm3-3b"},
                                  KnownModel{"olmo-2-0425-1b", "llama", "olmo2-1b"},
                                  KnownModel{"granite-3.0-2b", "llama", "granite3.0-2b"},
                                  KnownModel{"phi-3-mini", "llama", "phi3-mini"},
                                  KnownModel{"gemma-2-2b", "llama", "gemma2-2b"},
                                  KnownModel{"gemma-3-1b", "llama", "gemma3-1b"},
                                  KnownModel{"gemma-2b", "llama", "gemma-2b"},
                                  KnownModel{"mixtral-8x7b", "mixture", "mixtral-8x7b"},
                                  KnownModel{"olmoe-1b-7b", "mixture", "olmoe-1b-7b"},
                                  KnownModel{"qwen3-30b-a3b", "mixture", "qwen3-30b-a3b"},
                                  KnownModel{"gpt2-medium", "gpt2", "gpt2-355m"},
                                  KnownModel{"gpt2-large", "gpt2", "gpt2-774m"},
                                  KnownModel{"gpt2-xl", "gpt2", "gpt2-1558m"},
                                  KnownModel{"gpt2", "gpt2", "gpt2-124m"}};

void read_axolotl_model(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string base = settings.text({"base_model"});
  const std::int64_t context = settings.integer({"sequence_len"}).value_or(512);
  if (std::filesystem::is_directory(base)) {
    run.configuration.model_from = base;
    run.set_model("", {{"context", context}});
    return;
  }
  const std::string name = lower_case(base);
  const auto* known = std::ranges::find_if(
      kKnownModels, [&](const KnownModel& each) { return name.find(each.part) != std::string::npos; });
  if (known == kKnownModels.end()) {
    settings.refuse(
        "base_model",
        "a folder of Hugging Face on this machine, or the name of a model whose size a plugin knows, such as "
        "Llama-2-7b, Llama-3.1-8B, Mistral-7B, Mixtral-8x7B or gpt2");
  }
  run.set_model(known->plugin, {{"size", std::string(known->size)}, {"context", context}});
  settings.remark("base_model", "the size is known, its values are not here: model.from = \"FOLDER\" begins with them");
}

void read_axolotl_batch(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  layout.micro = settings.integer({"micro_batch_size"}).value_or(1);
  layout.accumulated = settings.integer({"gradient_accumulation_steps"}).value_or(1);
  layout.tensor = settings.integer({"tensor_parallel_size"}).value_or(1);
  layout.context = settings.integer({"context_parallel_size", "sequence_parallel_degree"}).value_or(1);
  layout.replicas = settings.integer({"dp_replicate_size"}).value_or(1);
  const std::int64_t shards = settings.integer({"dp_shard_size"}).value_or(1);
  if (shards <= 1) return;
  layout.zero_stage = 3;
  layout.shards_over_context = true;
  if (!layout.ranks) layout.ranks = shards * layout.replicas * layout.tensor * layout.context;
}

void read_axolotl_sharding(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  for (const std::string& word : settings.words({"fsdp"})) {
    if (word == "full_shard") layout.zero_stage = 3;
    if (word == "shard_grad_op") {
      layout.zero_stage = 3;
      layout.zero_options["reshard_after_forward"] = false;
    }
    if (word == "offload") layout.zero_options["offload_param"] = std::string("host");
  }
  if (settings.has_table("fsdp_config") && settings.integer({"fsdp_version"}).value_or(1) > 1) layout.zero_stage = 3;
  const bool offloads = settings.flag({"fsdp_config.fsdp_offload_params", "fsdp_config.offload_params"});
  if (offloads) layout.zero_options["offload_param"] = std::string("host");
  if (layout.zero_options.contains("offload_param")) layout.zero_options["offload_optimizer"] = std::string("host");
  if (settings.text({"fsdp_config.reshard_after_forward"}) == "false") {
    layout.zero_options["reshard_after_forward"] = false;
  }
  if (settings.has("deepspeed") && !settings.has_table("deepspeed")) import_deepspeed_file(run, "deepspeed");
}

void read_axolotl_adapter(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string adapter = settings.text({"adapter"});
  if (adapter.empty()) return;
  if (adapter != "lora" && adapter != "qlora") settings.refuse("adapter", "\"lora\" or \"qlora\"");
  OptionValues options = {{"rank", settings.integer({"lora_r"}).value_or(8)},
                          {"alpha", settings.number({"lora_alpha"}).value_or(16)},
                          {"dropout", settings.number({"lora_dropout"}).value_or(0)}};
  std::vector<std::string> targets;
  for (const std::string& name : settings.words({"lora_target_modules"})) targets.push_back("*." + name + ".weight");
  if (!settings.flag({"lora_target_linear"}) && !targets.empty()) options["targets"] = targets;
  std::vector<std::string> whole;
  for (const std::string& name : settings.words({"lora_modules_to_save"})) whole.push_back("*" + name + ".weight");
  if (!whole.empty()) options["train"] = whole;
  if (settings.flag({"peft_use_rslora"})) options["rank_stabilized"] = true;
  if (settings.flag({"load_in_4bit"}) || adapter == "qlora") options["base"] = std::string("nf4");
  if (settings.flag({"load_in_8bit"})) options["base"] = std::string("int8");
  run.layout.lora = options;
}

void read_axolotl_schedule(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  RunConfiguration& configuration = run.configuration;
  ScheduleSection& schedule = configuration.optimizer.schedule;
  if (const auto steps = settings.integer({"max_steps"}); steps && *steps > 0) {
    configuration.run.steps = *steps;
    run.has_steps = true;
  }
  const std::string kind = settings.text({"lr_scheduler"});
  const auto ratio = settings.number({"warmup_ratio"});
  schedule.warmup = settings.integer({"warmup_steps"}).value_or(0);
  if (ratio) schedule.warmup = static_cast<std::int64_t>(*ratio * static_cast<double>(configuration.run.steps));
  schedule.kind = kind == "linear" ? "linear" : kind.rfind("constant", 0) == 0 ? "warmup" : "cosine";
  if (schedule.kind == "warmup" && schedule.warmup == 0) schedule.kind = "constant";
  if (!kind.empty() && kind != "cosine" && kind != "linear" && kind.rfind("constant", 0) != 0) {
    settings.remark("lr_scheduler", "no schedule of this name; cosine stands for it");
  }
  const double ratio_at_end = settings.number({"cosine_min_lr_ratio"}).value_or(0);
  if (schedule.kind == "cosine") schedule.min_lr = configuration.optimizer.lr * std::clamp(ratio_at_end, 0.0, 1.0);
}

void read_axolotl_optimizer(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptimizerSection& optimizer = run.configuration.optimizer;
  // The Trainer of Hugging Face has these defaults.
  optimizer.lr = settings.number({"learning_rate"}).value_or(5e-5);
  optimizer.weight_decay = settings.number({"weight_decay"}).value_or(0);
  optimizer.clip = settings.number({"max_grad_norm"}).value_or(1);
  const std::vector<double> betas = {settings.number({"adam_beta1"}).value_or(kTorchBetas[0]),
                                     settings.number({"adam_beta2"}).value_or(kTorchBetas[1])};
  const std::string name = settings.text({"optimizer"});
  std::string plain = name.empty() ? "adamw" : name.substr(0, name.find('_'));
  if (name.find("8bit") != std::string::npos || name.find("paged") != std::string::npos) {
    if (plain == "paged") plain = "adamw";
    settings.remark("optimizer", "states are in f32; zero.offload_optimizer moves them to host memory");
  }
  run.set_optimizer("optimizer", plain,
                    {{"betas", betas}, {"epsilon", settings.number({"adam_epsilon"}).value_or(kTorchEpsilon)}});
  read_axolotl_schedule(run);
}

void read_axolotl_data(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptionValues options = {{"path", std::string("train.bin")}};
  const double held = settings.number({"val_set_size"}).value_or(0);
  constexpr double kLargestShare = 0.9;
  if (held <= kLargestShare) options["validation"] = held;
  run.configuration.data.dataset = {.path = "data", .plugin = "tokens", .options = options};
  run.has_data = true;
  settings.remark("datasets", "data.path is a file of tokens that `strata tokenize` makes of your texts");
  RunConfiguration& configuration = run.configuration;
  configuration.run.output = settings.text({"output_dir"});
  configuration.run.seed = settings.integer({"seed"}).value_or(configuration.run.seed);
  const auto at_least_one = [](std::optional<double> value) { return value && *value >= 1; };
  const auto log = settings.number({"logging_steps"});
  const auto save = settings.number({"save_steps"});
  const auto evaluate = settings.number({"eval_steps"});
  if (at_least_one(log)) configuration.run.log_every = static_cast<std::int64_t>(*log);
  if (at_least_one(save)) configuration.run.checkpoint_every = static_cast<std::int64_t>(*save);
  if (at_least_one(evaluate)) configuration.run.eval_every = static_cast<std::int64_t>(*evaluate);
}

}  // namespace

ImportReasons import_axolotl(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  read_axolotl_model(run);
  read_axolotl_batch(run);
  read_axolotl_optimizer(run);
  read_axolotl_sharding(run);
  read_axolotl_adapter(run);
  read_axolotl_data(run);
  const auto is_on = [](const std::string& text) { return text == "true" || text == "auto" || text == "full"; };
  run.set_precision(is_on(settings.text({"bf16", "bfloat16"})), is_on(settings.text({"fp16", "float16"})));
  const std::string recompute = settings.text({"gradient_checkpointing"});
  if (!recompute.empty() && recompute != "false") run.layout.recompute = OptionValues{{"policy", std::string("full")}};
  return {{"num_epochs", "run.steps counts steps: samples · epochs / batch.global"},
          {"evals_per_epoch", "run.eval_every counts steps"},
          {"saves_per_epoch", "run.checkpoint_every counts steps"},
          {"eval_table", "there is no table of samples; `strata generate` writes text"},
          {"eval_max_new_tokens", "`strata generate` writes text"},
          {"model_type", "the folder of Hugging Face says it"},
          {"tokenizer_type", "data.tokenizer names a tokenizer"},
          {"is_llama_derived_model", "the folder of Hugging Face says it"},
          {"special_tokens", "`strata tokenize` writes special tokens into the data"},
          {"sample_packing", "a file of tokens is always packed; data.documents keeps attention inside of documents"},
          {"pad_to_sequence_len", "every sample has model.context tokens"},
          {"dataset_prepared_path", "`strata tokenize` writes the prepared file"},
          {"flash_", "the device chooses its kernels"},
          {"attention", "the device chooses its kernels"},
          {"xformers", "the device chooses its kernels"},
          {"sdp_attention", "the device chooses its kernels"},
          {"tf32", "the device chooses the precision of products in f32"},
          {"wandb", "logs go to JSON and TensorBoard"},
          {"mlflow", "logs go to JSON and TensorBoard"},
          {"gradient_checkpointing_kwargs", "there is one way to recompute"},
          {"fsdp_config", "the strategy zero gathers block by block, and each rank writes its pieces"},
          {"train_on_inputs", "the data says which tokens have a loss"},
          {"group_by_length", "every sample has model.context tokens"},
          {"lora_fan_in_fan_out", "the model's plugin says how its matrices lie"},
          {"resume_from_checkpoint", "`strata train --resume auto`"},
          {"hub_", "`strata export` writes a folder of Hugging Face"}};
}

}  // namespace strata::host
