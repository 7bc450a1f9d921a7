#include "matrix/models.hpp"

namespace strata::testing {
namespace {

/// The options of Gemma 2 and 3, with caps that bend most values. The epsilon keeps norms after branches, whose results
/// are small at first, from gradients that f16 cannot hold.
constexpr const char* kGemma = R"("llama"
norm_plus_one = "yes"
norm_place = "both"
activation = "gelu_tanh"
scaled_embedding = "yes"
attention_multiplier = 0.5
attention_cap = 0.7
logit_cap = 0.9
global_every = 2
local_rope_base = 100.0
norm_epsilon = 0.01)";

/// The options of OLMo 2, SmolLM3 and Granite.
constexpr const char* kOlmo = R"("llama"
kv_heads = 1
norm_place = "after"
qk_norm = "all_heads"
no_rope_every = 2
embedding_multiplier = 3.0
residual_multiplier = 0.4
logits_scaling = 0.5
residual_dropout = 0.1
norm_epsilon = 0.01)";

constexpr const char* kMixture = R"("mixture"
ffn = 12
experts = 6
balance_loss = 0.1
z_loss = 0.1)";
constexpr const char* kSharedMixture = R"("mixture"
kv_heads = 1
qk_norm = "all_heads"
ffn = 6
experts = 6
choices = 3
scores = "sigmoid"
normalize = "no"
shared_ffn = 12
balance_loss = 0.3)";
/// Large steps, so that the biases change choices after the first step.
constexpr const char* kBalancedMixture = R"("mixture"
ffn = 12
experts = 6
balance_bias = 0.02
switch_loss = 0.3)";

}  // namespace

std::vector<OptionChoice> models() {
  return {{"\"gpt2\"\ndropout = 0.0"},
          {"\"gpt2\"\ndropout = 0.1"},
          {"\"llama\""},
          {"\"llama\"\nkv_heads = 1\nqk_norm = \"yes\"\nrope_scaling = \"yarn\"\nrope_factor = 4"},
          {kGemma},
          {kOlmo},
          {"\"llama\"\ntied = \"yes\"\nqkv_bias = \"yes\"\noutput_bias = \"yes\"\nmlp_bias = \"yes\"\nwindow_layers "
           "= 1"},
          {"\"bert\""},
          {"\"bert\"\nclasses = 3\nffn = 12"},
          {"\"t5\"\nhead_dim = 2\nffn = 12\ntarget_context = 6\nbuckets = 8\nmax_distance = 8"},
          {"\"t5\"\nhead_dim = 2\nffn = 12\ntarget_context = 6\ntied = true\ngated = false"},
          {kMixture},
          {kSharedMixture},
          {kBalancedMixture},
          {"\"vit\"\nffn = 12\ndropout = 0.1\nlabel_smoothing = 0.1"},
          {"\"vit\"\nffn = 12\nclass_token = false"},
          {"\"resnet\"\nstem = \"cifar\"\nimage = 6\nlabel_smoothing = 0.1"},
          {"\"resnet\"\nblock = \"bottleneck\"\nimage = 18"}};
}

std::vector<ModelSizes> model_sizes() {
  return {{2, 8, 8, 16},    {4, 8, 16, 16},  {8, 16, 16, 16},  {16, 32, 32, 32}, {3, 6, 12, 12},   {6, 12, 12, 12},
          {12, 24, 24, 24}, {5, 10, 10, 20}, {10, 20, 20, 20}, {7, 14, 14, 14},  {14, 28, 28, 28}, {9, 18, 18, 18}};
}

}  // namespace strata::testing
