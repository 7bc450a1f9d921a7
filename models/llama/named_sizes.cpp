#include <array>
#include <tuple>

#include "llama.hpp"

namespace llama {
namespace {

using strata::models::Rope;
using strata::models::RopeScaling;

/// Llama 3.1 and later.
Rope llama3_rope(double factor) {
  return {.base = 500000,
          .scaling = {.kind = RopeScaling::Kind::llama3,
                      .factor = factor,
                      .original_context = 8192,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4}};
}

/// A model with `sizes` in the order of named_sizes(), and `others` of its settings.
Settings published(const std::array<std::int64_t, 8>& sizes, Settings others = {}) {
  std::tie(others.layers, others.heads, others.kv_heads, others.head_dim, others.embed, others.ffn, others.context,
           others.vocab) = std::tuple_cat(sizes);
  return others;
}

/// What all models of Gemma have.
Settings gemma(Settings settings) {
  settings.norm_epsilon = 1e-6;
  settings.norm_plus_one = true;
  settings.tied = true;
  settings.activation = "gelu_tanh";
  settings.scaled_embedding = true;
  return settings;
}

}  // namespace

const std::vector<NamedSize>& named_sizes() {
  // Columns: layers, heads, kv_heads, head_dim, embed, ffn, context, vocab.
  static const std::vector<NamedSize> kSizes = {
      {"llama2-7b", published({32, 32, 32, 128, 4096, 11008, 4096, 32000})},
      {"llama3-8b", published({32, 32, 8, 128, 4096, 14336, 8192, 128256}, {.rope = {.base = 500000}})},
      {"llama3.1-8b", published({32, 32, 8, 128, 4096, 14336, 131072, 128256}, {.rope = llama3_rope(8)})},
      {"llama3.2-1b", published({16, 32, 8, 64, 2048, 8192, 131072, 128256}, {.rope = llama3_rope(32), .tied = true})},
      {"mistral-7b", published({32, 32, 8, 128, 4096, 14336, 32768, 32000}, {.window = 4096})},
      {"qwen2-0.5b", published({24, 14, 2, 64, 896, 4864, 131072, 151936},
                               {.norm_epsilon = 1e-6, .rope = {.base = 1000000}, .tied = true, .qkv_bias = true})},
      {"qwen3-0.6b",
       published({28, 16, 8, 128, 1024, 3072, 40960, 151936},
                 {.norm_epsilon = 1e-6, .rope = {.base = 1000000}, .tied = true, .qk_norm = HeadNorm::each})},
      {"smollm2-135m", published({30, 9, 3, 64, 576, 1536, 8192, 49152}, {.rope = {.base = 100000}, .tied = true})},
      {"smollm3-3b", published({36, 16, 4, 128, 2048, 11008, 65536, 128256},
                               {.norm_epsilon = 1e-6, .rope = {.base = 5000000}, .no_rope_every = 4, .tied = true})},
      {"olmo2-1b",
       published(
           {16, 16, 16, 128, 2048, 8192, 4096, 100352},
           {.norm_epsilon = 1e-6, .norm_place = NormPlace::after, .rope = {.base = 500000}, .qk_norm = HeadNorm::all})},
      {"granite3.0-2b", published({40, 32, 8, 64, 2048, 8192, 4096, 49155}, {.tied = true,
                                                                             .embedding_multiplier = 12,
                                                                             .residual_multiplier = 0.22,
                                                                             .attention_multiplier = 0.015625,
                                                                             .logits_scaling = 8})},
      {"phi3-mini", published({32, 32, 32, 96, 3072, 8192, 4096, 32064}, {.window = 2047, .model_type = "phi3"})},
      {"gemma-2b", gemma(published({18, 8, 1, 256, 2048, 16384, 8192, 256000}))},
      {"gemma2-2b",
       gemma(published(
           {26, 8, 4, 256, 2304, 9216, 8192, 256000},
           {.norm_place = NormPlace::both, .window = 4096, .global_every = 2, .attention_cap = 50, .logit_cap = 30}))},
      {"gemma3-1b", gemma(published({26, 4, 1, 256, 1152, 6912, 32768, 262144}, {.norm_place = NormPlace::both,
                                                                                 .rope = {.base = 1000000},
                                                                                 .local_rope_base = 10000,
                                                                                 .qk_norm = HeadNorm::each,
                                                                                 .window = 512,
                                                                                 .global_every = 6}))},
      {"mixtral-8x7b", published({32, 32, 8, 128, 4096, 14336, 32768, 32000},
                                 {.rope = {.base = 1000000}, .experts = {.count = 8, .choices = 2}})},
      {"olmoe-1b-7b",
       published({16, 16, 16, 128, 2048, 1024, 4096, 50304},
                 {.qk_norm = HeadNorm::all, .experts = {.count = 64, .choices = 8, .normalize = false}})},
      {"qwen3-30b-a3b",
       published({48, 32, 4, 128, 2048, 768, 40960, 151936}, {.norm_epsilon = 1e-6,
                                                              .rope = {.base = 1000000},
                                                              .qk_norm = HeadNorm::each,
                                                              .experts = {.count = 128, .choices = 8}})},
  };
  return kSizes;
}

}  // namespace llama
