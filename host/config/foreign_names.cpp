#include "config/foreign_names.hpp"

#include <algorithm>
#include <array>

namespace strata::host {
namespace {

struct Name {
  std::string_view foreign;
  std::string_view here;
};

/// Names that settings have in nanoGPT, Hugging Face's Transformers and PEFT, Megatron-LM, DeepSpeed and torchtitan.
constexpr std::array kNames{
    Name{"learning_rate", "optimizer.lr"},
    Name{"max_lr", "optimizer.lr"},
    Name{"min_learning_rate", "optimizer.schedule.min_lr"},
    Name{"warmup_iters", "optimizer.schedule.warmup"},
    Name{"warmup_steps", "optimizer.schedule.warmup"},
    Name{"lr_scheduler_type", "optimizer.schedule.kind"},
    Name{"grad_clip", "optimizer.clip"},
    Name{"clip_grad", "optimizer.clip"},
    Name{"max_grad_norm", "optimizer.clip"},
    Name{"gradient_clipping", "optimizer.clip"},
    Name{"batch_size", "batch.global"},
    Name{"global_batch_size", "batch.global"},
    Name{"train_batch_size", "batch.global"},
    Name{"micro_batch_size", "batch.micro"},
    Name{"per_device_train_batch_size", "batch.micro"},
    Name{"train_micro_batch_size_per_gpu", "batch.micro"},
    Name{"gradient_accumulation_steps", "batch.global, which is micro times replicas times accumulated micro-batches"},
    Name{"max_iters", "run.steps"},
    Name{"max_steps", "run.steps"},
    Name{"train_iters", "run.steps"},
    Name{"num_train_steps", "run.steps"},
    Name{"eval_interval", "run.eval_every"},
    Name{"eval_steps", "run.eval_every"},
    Name{"eval_iters", "run.eval_batches"},
    Name{"save_steps", "run.checkpoint_every"},
    Name{"save_interval", "run.checkpoint_every"},
    Name{"output_dir", "run.output"},
    Name{"out_dir", "run.output"},
    Name{"n_layer", "layers"},
    Name{"n_layers", "layers"},
    Name{"num_layers", "layers"},
    Name{"num_hidden_layers", "layers"},
    Name{"n_head", "heads"},
    Name{"n_heads", "heads"},
    Name{"num_heads", "heads"},
    Name{"num_attention_heads", "heads"},
    Name{"num_key_value_heads", "kv_heads"},
    Name{"n_kv_heads", "kv_heads"},
    Name{"n_embd", "embed"},
    Name{"dim", "embed"},
    Name{"d_model", "embed"},
    Name{"hidden_size", "embed"},
    Name{"intermediate_size", "ffn"},
    Name{"ffn_hidden_size", "ffn"},
    Name{"block_size", "context"},
    Name{"seq_len", "context"},
    Name{"seq_length", "context"},
    Name{"max_seq_len", "context"},
    Name{"max_position_embeddings", "context"},
    Name{"vocab_size", "vocab"},
    Name{"r", "rank"},
    Name{"lora_r", "rank"},
    Name{"lora_alpha", "alpha"},
    Name{"target_modules", "targets"},
    Name{"degree", "size"},
    Name{"world_size", "size"},
    Name{"data_dir", "path"},
};

}  // namespace

std::string name_here(std::string_view foreign) {
  const auto* found =
      std::find_if(kNames.begin(), kNames.end(), [&](const Name& each) { return each.foreign == foreign; });
  return found == kNames.end() ? std::string() : std::string(found->here);
}

}  // namespace strata::host
