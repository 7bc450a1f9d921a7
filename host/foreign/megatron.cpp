#include <algorithm>
#include <cmath>
#include <string>

#include "foreign/imported_run.hpp"

namespace strata::host {
namespace {

/// Megatron-LM pads the vocabulary to a multiple of this and of the tensor ranks.
std::int64_t padded_vocabulary(ForeignSettings& settings, std::int64_t vocabulary, std::int64_t tensor) {
  constexpr std::int64_t kMultiple = 128;
  const std::int64_t multiple = settings.integer({"make-vocab-size-divisible-by"}).value_or(kMultiple) * tensor;
  if (multiple < 1 || vocabulary < 1) settings.refuse("vocab-size", "a number of at least 1");
  return (vocabulary + multiple - 1) / multiple * multiple;
}

void add_vocabulary(ImportedRun& run, OptionValues& options) {
  ForeignSettings& settings = run.settings;
  const std::string tokenizer = settings.text({"tokenizer-type"});
  constexpr std::int64_t kGpt2 = 50257;
  const auto given = settings.integer({"vocab-size"});
  const bool is_gpt2 = tokenizer.empty() || tokenizer == "GPT2BPETokenizer";
  if (given || is_gpt2) {
    options["vocab"] = padded_vocabulary(settings, given.value_or(kGpt2), std::max<std::int64_t>(run.layout.tensor, 1));
  }
}

/// Options that GPT-2 and Llama share.
OptionValues common_options(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptionValues options;
  for (const auto& [name, path] : {std::pair("layers", "num-layers"), std::pair("embed", "hidden-size"),
                                   std::pair("heads", "num-attention-heads"), std::pair("context", "seq-length")}) {
    const auto value = settings.integer({path});
    if (!value || *value < 1) settings.refuse(path, "--" + std::string(path) + " with a number of at least 1");
    options[name] = *value;
  }
  options["attention_dropout"] = settings.number({"attention-dropout"}).value_or(0.1);
  add_vocabulary(run, options);
  return options;
}

/// The experts of a mixture, which has the other options of Llama.
void read_megatron_experts(ImportedRun& run, OptionValues& options) {
  ForeignSettings& settings = run.settings;
  const std::int64_t experts = settings.integer({"num-experts"}).value_or(0);
  if (experts < 1) settings.refuse("num-experts", "a number of at least 1, or no argument");
  options["experts"] = experts;
  options["choices"] = settings.integer({"moe-router-topk"}).value_or(2);
  if (const auto ffn = settings.integer({"moe-ffn-hidden-size"})) options["ffn"] = *ffn;
  if (const auto ffn = settings.integer({"moe-shared-expert-intermediate-size"})) options["shared_ffn"] = *ffn;
  if (settings.flag({"moe-router-pre-softmax"})) options["normalize"] = std::string("no");
  const std::string scores = settings.text({"moe-router-score-function"});
  if (!scores.empty()) options["scores"] = scores;
  if (const auto weight = settings.number({"moe-z-loss-coeff"})) options["z_loss"] = *weight;
  const std::string balance = settings.text({"moe-router-load-balancing-type"});
  const double weight = settings.number({"moe-aux-loss-coeff"}).value_or(0);
  if ((balance.empty() || balance.ends_with("aux_loss")) && weight > 0) {
    const bool is_of_sequence = balance.starts_with("seq");
    const bool is_of_batch = !is_of_sequence && scores != "sigmoid";
    options[is_of_batch ? "switch_loss" : "balance_loss"] = weight;
    if (is_of_batch)
      settings.remark("moe-aux-loss-coeff", "model.switch_loss is that of a micro-batch on all replicas");
    if (!is_of_batch && !is_of_sequence) {
      settings.remark("moe-aux-loss-coeff", "model.balance_loss is that of a sequence, not of a batch");
    }
  }
  const double bias_step = settings.number({"moe-router-bias-update-rate"}).value_or(1e-3);
  if (settings.flag({"moe-router-enable-expert-bias"})) options["balance_bias"] = bias_step;
  options.erase("mlp_bias");
  run.layout.expert = settings.integer({"expert-model-parallel-size"}).value_or(1);
  run.set_model("mixture", options);
}

void read_megatron_llama(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptionValues options = common_options(run);
  options["residual_dropout"] = settings.number({"hidden-dropout"}).value_or(0.1);
  if (const auto ffn = settings.integer({"ffn-hidden-size"})) options["ffn"] = *ffn;
  if (settings.flag({"group-query-attention"}))
    options["kv_heads"] = settings.integer({"num-query-groups"}).value_or(1);
  if (const auto width = settings.integer({"kv-channels"})) options["head_dim"] = *width;
  options["rope_base"] = settings.number({"rotary-base"}).value_or(10000);
  options["norm_epsilon"] = settings.number({"norm-epsilon"}).value_or(1e-5);
  options["tied"] = std::string(settings.flag({"untie-embeddings-and-output-weights"}) ? "no" : "yes");
  if (settings.flag({"apply-layernorm-1p"})) options["norm_plus_one"] = std::string("yes");
  if (settings.flag({"qk-layernorm"})) options["qk_norm"] = std::string("yes");
  const bool has_bias = !settings.flag({"disable-bias-linear"});
  if (has_bias || settings.flag({"add-qkv-bias"})) options["qkv_bias"] = std::string("yes");
  if (has_bias) options["output_bias"] = options["mlp_bias"] = std::string("yes");
  if (settings.text({"normalization"}) != "RMSNorm") {
    settings.remark_on_file("normalization", "the llama model has root mean square norms, not LayerNorm");
  }
  if (!settings.flag({"swiglu"})) settings.remark_on_file("swiglu", "the llama model has a gated feed-forward block");
  if (settings.has("num-experts")) return read_megatron_experts(run, options);
  run.set_model("llama", options);
}

void read_megatron_gpt2(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptionValues options = common_options(run);
  options["dropout"] = settings.number({"hidden-dropout"}).value_or(0.1);
  if (settings.has("num-experts")) settings.refuse("num-experts", "no argument: the gpt2 model has no experts");
  const auto embed = std::get<std::int64_t>(options["embed"]);
  if (const auto ffn = settings.integer({"ffn-hidden-size"}); ffn && *ffn / 4 != embed) {
    settings.remark("ffn-hidden-size", "the gpt2 model's feed-forward block is four times as wide as its stream");
  }
  run.set_model("gpt2", options);
}

void read_megatron_pipeline(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  layout.pipeline = settings.integer({"pipeline-model-parallel-size"}).value_or(1);
  const auto layers = settings.integer({"num-layers-per-virtual-pipeline-stage"});
  auto chunks = settings.integer({"num-virtual-stages-per-pipeline-rank"});
  if (layers && *layers > 0 && layout.pipeline > 0) {
    chunks = settings.integer({"num-layers"}).value_or(0) / layout.pipeline / *layers;
  }
  if (!chunks || *chunks < 2) return;
  layout.pipeline_options = {{"schedule", std::string("interleaved")}, {"virtual_stages", *chunks}};
}

void read_megatron_layout(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  ForeignLayout& layout = run.layout;
  const auto per_node = settings.integer({"nproc-per-node"});
  const std::int64_t nodes = settings.integer({"nnodes"}).value_or(1);
  if (per_node && !layout.ranks && *per_node > 0 && *per_node < 1024 && nodes > 0 && nodes < 65536) {
    layout.ranks = *per_node * nodes;
  }
  layout.tensor = settings.integer({"tensor-model-parallel-size"}).value_or(1);
  if (settings.flag({"sequence-parallel"})) layout.tensor_options["sequence_parallel"] = true;
  layout.context = settings.integer({"context-parallel-size"}).value_or(1);
  const std::string kind = settings.text({"cp-comm-type"});
  layout.context_options["attention"] = std::string(kind == "all_gather" ? "all_gather"
                                                    : kind == "a2a"      ? "ulysses"
                                                                         : "ring");
  read_megatron_pipeline(run);
  layout.zero_stage = settings.flag({"use-distributed-optimizer"}) ? 1 : 0;
  const bool shards_all = settings.flag({"use-torch-fsdp2", "use-megatron-fsdp", "use-custom-fsdp"});
  if (shards_all) layout.zero_stage = 3;
  layout.shards_over_context = true;
  if (settings.flag({"optimizer-cpu-offload"}) && layout.zero_stage > 0) {
    layout.zero_options["offload_optimizer"] = std::string("host");
  }
  if (layout.zero_stage > 0) layout.zero_options["overlap"] = settings.flag({"overlap-grad-reduce"}) || shards_all;
  const std::int64_t world = layout.pipeline * layout.context * layout.tensor;
  if (layout.ranks && world > 1 && *layout.ranks < world) {
    settings.remark("nproc-per-node", "the script's devices are fewer than its degrees of parallelism ask for");
    layout.ranks.reset();
  }
  layout.micro = settings.integer({"micro-batch-size"}).value_or(1);
  if (const auto global = settings.integer({"global-batch-size"})) {
    layout.global = *global;
  } else {
    // Megatron-LM's default.
    layout.accumulated = 1;
  }
}

/// Sets the number of steps, and returns how many samples a step has.
double read_megatron_length(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const double batch = static_cast<double>(std::max<std::int64_t>(run.layout.global.value_or(1), 1));
  const auto steps = settings.integer({"train-iters"});
  const auto samples = settings.number({"train-samples"});
  run.has_steps = steps || samples;
  if (steps) run.configuration.run.steps = *steps;
  constexpr double kMostSamples = 1e15;
  if (samples && *samples > 0 && *samples < kMostSamples) {
    run.configuration.run.steps = std::max<std::int64_t>(std::llround(*samples / batch), 1);
  }
  return batch;
}

void read_megatron_schedule(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptimizerSection& optimizer = run.configuration.optimizer;
  ScheduleSection& schedule = optimizer.schedule;
  const double batch = read_megatron_length(run);
  const auto steps = static_cast<double>(run.configuration.run.steps);
  const double fraction = settings.number({"lr-warmup-fraction"}).value_or(0);
  const double samples = settings.number({"lr-warmup-samples"}).value_or(0);
  const double warmup = samples > 0 ? samples / batch : fraction * steps;
  schedule.warmup = settings.integer({"lr-warmup-iters"}).value_or(std::llround(std::clamp(warmup, 0.0, steps)));
  const std::string style = settings.text({"lr-decay-style"});
  schedule.kind = style == "cosine" ? "cosine" : style == "constant" ? "warmup" : "linear";
  if (style == "inverse-square-root") schedule.kind = "inverse_sqrt";
  if (style == "WSD") {
    schedule.kind = "wsd";
    const std::int64_t most = std::max<std::int64_t>(run.configuration.run.steps - schedule.warmup, 1);
    schedule.decay = std::clamp<std::int64_t>(settings.integer({"lr-wsd-decay-iters"}).value_or(most), 1, most);
  }
  const double low = settings.number({"min-lr"}).value_or(0);
  if (schedule.kind == "cosine" || schedule.kind == "linear" || schedule.kind == "wsd") schedule.min_lr = low;
  if (schedule.kind == "warmup" && schedule.warmup == 0) schedule.kind = "constant";
}

void read_megatron_optimizer(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  OptimizerSection& optimizer = run.configuration.optimizer;
  const std::vector<double> betas = {settings.number({"adam-beta1"}).value_or(kTorchBetas[0]),
                                     settings.number({"adam-beta2"}).value_or(kTorchBetas[1])};
  const std::string name = settings.text({"optimizer"});
  run.set_optimizer("optimizer", name.empty() ? "adam" : name,
                    {{"betas", betas}, {"epsilon", settings.number({"adam-eps"}).value_or(kTorchEpsilon)}});
  optimizer.lr = settings.number({"lr"}).value_or(optimizer.lr);
  optimizer.weight_decay = settings.number({"weight-decay"}).value_or(0.01);
  optimizer.clip = settings.number({"clip-grad"}).value_or(1);
  read_megatron_schedule(run);
}

void read_megatron_recompute(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  const std::string granularity = settings.text({"recompute-granularity"});
  const bool is_selective = settings.flag({"recompute-activations"}) || granularity == "selective";
  const std::int64_t layers = settings.integer({"recompute-num-layers"}).value_or(1);
  const std::string method = settings.text({"recompute-method"});
  if (is_selective) run.layout.recompute = OptionValues{{"policy", std::string("selective")}};
  const bool is_old = settings.flag({"checkpoint-activations"});
  if (granularity != "full" && !is_old) return;
  run.layout.recompute = OptionValues{{"policy", std::string("full")}};
  if (layers > 1 && method == "uniform") {
    run.layout.recompute = OptionValues{{"policy", std::string("every")}, {"every", layers}};
  }
  if (method == "block")
    settings.remark("recompute-method", "all blocks are recomputed, not the first ones of a stage");
}

void read_megatron_run(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  RunSection& section = run.configuration.run;
  section.seed = settings.integer({"seed"}).value_or(1234);
  section.log_every = settings.integer({"log-interval"}).value_or(100);
  section.checkpoint_every = settings.integer({"save-interval"}).value_or(0);
  section.eval_every = settings.integer({"eval-interval"}).value_or(0);
  section.eval_batches = settings.integer({"eval-iters"}).value_or(section.eval_every > 0 ? 100 : 0);
  run.configuration.log.tensorboard = settings.has("tensorboard-dir");
}

}  // namespace

ImportReasons import_megatron(ImportedRun& run) {
  ForeignSettings& settings = run.settings;
  settings.remark("if", "conditions of the script are not evaluated: all their branches count");
  read_megatron_layout(run);
  const std::string positions = settings.text({"position-embedding-type"});
  if (positions == "rope" || settings.has("swiglu") || settings.has("use-rotary-position-embeddings")) {
    read_megatron_llama(run);
  } else {
    read_megatron_gpt2(run);
  }
  read_megatron_optimizer(run);
  read_megatron_recompute(run);
  read_megatron_run(run);
  run.set_precision(settings.flag({"bf16"}) || settings.has("fp8-format"), settings.flag({"fp16"}));
  if (settings.flag({"grad-reduce-in-bf16"}) && run.layout.precision) {
    (*run.layout.precision)["reduce"] = std::string("bf16");
  }
  return {{"fp8", "no products in fp8; they are in bf16"},
          {"rampup-batch-size", "batch.global is the same in every step"},
          {"moe-token-dispatcher", "tokens are gathered, and no token is dropped"},
          {"moe-grouped-gemm", "the device chooses its kernels"},
          {"moe-router-load-balancing-type", "model.switch_loss and model.balance_loss are losses of the balance"},
          {"lr-decay", "a decay ends with the run: run.steps"},
          {"decoupled", "[[optimizer.group]] gives parameters another lr_factor"},
          {"init-method-std", "the model's plugin chooses its initial values"},
          {"max-position-embeddings", "as many positions as model.context"},
          {"rotary-percent", "all of a head is rotated"},
          {"attention-backend", "the device chooses its kernels"},
          {"use-flash-attn", "the device chooses its kernels"},
          {"use-mcore-models", "there is one implementation"},
          {"transformer-impl", "there is one implementation"},
          {"cross-entropy", "the device chooses its kernels"},
          {"overlap-param-gather", "ZeRO-1 gathers parameters at the end of the step"},
          {"tp-comm-overlap", "tensor.overlap_chunks overlaps products with collectives"},
          {"no-", "the compiler and the device choose what is fused and overlapped"},
          {"calculate-per-token-loss", "the loss is always the mean over the tokens of a step"},
          {"data-path", "data.path reads the same file: NAME.idx beside NAME.bin"},
          {"mock-data", "data.path is a file of tokens that `strata tokenize` makes of your texts"},
          {"data-cache-path", "samples are drawn without an index"},
          {"split", "data.validation is the share that is kept for evaluation"},
          {"vocab-file", "data.tokenizer names a tokenizer"},
          {"merge-file", "data.tokenizer names a tokenizer"},
          {"tokenizer-model", "data.tokenizer names a tokenizer"},
          {"tiktoken-pattern", "data.tokenizer names a tokenizer"},
          {"num-workers", "a thread of each rank reads ahead"},
          {"save", "run.output is the folder of checkpoints"},
          {"load", "`strata train --resume` names a checkpoint"},
          {"ckpt-format", "each rank writes its pieces, and any layout resumes them"},
          {"tensorboard", "event files lie in run.output"},
          {"log-throughput", "the log has it"},
          {"profile", "`strata simulate --trace` writes a trace"},
          {"exit-duration-in-mins", "run.stop_after ends a run after a time"},
          {"distributed", "`strata launch` starts the processes"},
          {"master", "`strata launch` brings the processes together"},
          {"node-rank", "`strata launch --hosts` numbers the hosts"},
          {"manual-gc", "there is no garbage"},
          {"empty-unused-memory-level", "memory is planned, and nothing is allocated in a step"}};
}

}  // namespace strata::host
