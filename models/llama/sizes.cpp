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

}  // namespace

const std::vector<NamedSize>& named_sizes() {
  static const std::vector<NamedSize> kSizes = {
      {"llama2-7b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 32,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 11008,
        .context = 4096,
        .vocab = 32000}},
      {"llama3-8b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 8192,
        .vocab = 128256,
        .rope = {.base = 500000}}},
      {"llama3.1-8b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 131072,
        .vocab = 128256,
        .rope = llama3_rope(8)}},
      {"llama3.2-1b",
       {.layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 64,
        .embed = 2048,
        .ffn = 8192,
        .context = 131072,
        .vocab = 128256,
        .rope = llama3_rope(32),
        .tied = true}},
      {"mistral-7b",
       {.layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 4096,
        .ffn = 14336,
        .context = 32768,
        .vocab = 32000,
        .window = 4096}},
      {"qwen2-0.5b",
       {.layers = 24,
        .heads = 14,
        .kv_heads = 2,
        .head_dim = 64,
        .embed = 896,
        .ffn = 4864,
        .context = 131072,
        .vocab = 151936,
        .norm_epsilon = 1e-6,
        .rope = {.base = 1000000},
        .tied = true,
        .qkv_bias = true}},
      {"qwen3-0.6b",
       {.layers = 28,
        .heads = 16,
        .kv_heads = 8,
        .head_dim = 128,
        .embed = 1024,
        .ffn = 3072,
        .context = 40960,
        .vocab = 151936,
        .norm_epsilon = 1e-6,
        .rope = {.base = 1000000},
        .tied = true,
        .qk_norm = true}},
      {"smollm2-135m",
       {.layers = 30,
        .heads = 9,
        .kv_heads = 3,
        .head_dim = 64,
        .embed = 576,
        .ffn = 1536,
        .context = 8192,
        .vocab = 49152,
        .rope = {.base = 100000},
        .tied = true}},
  };
  return kSizes;
}

}  // namespace llama
