#include "model_type.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "strata/error.hpp"

namespace llama {
namespace {

using strata::OptionError;
using Window = ModelType::Window;

/// Of several that can express a model, the first is that of its exported files.
const std::vector<ModelType>& model_types() {
  static const std::vector<ModelType> kTypes{
      {.model_type = "llama", .architecture = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true},
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .window = Window::all_layers,
       .defaults = {.kv_heads = 8}},
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .qkv_bias = true,
       .head_dim = false,
       .window = Window::last_layers,
       .defaults = {.kv_heads = 32}},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .qk_norm = HeadNorm::each,
       .attention_bias = true,
       .window = Window::last_layers,
       .defaults = {.kv_heads = 32, .head_dim = 128}},
      {.model_type = "ministral",
       .architecture = "MinistralForCausalLM",
       .window = Window::listed_layers,
       .defaults = {.kv_heads = 8}},
      {.model_type = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .attention_bias = true,
       .mlp_bias = true,
       .head_dim = false,
       .no_rope = true,
       .defaults = {.kv_heads = 4, .rope_base = 2000000, .tied = true}},
      {.model_type = "seed_oss",
       .architecture = "SeedOssForCausalLM",
       .attention_bias = true,
       .output_bias = true,
       .mlp_bias = true,
       .residual_dropout = "residual_dropout",
       .defaults = {.kv_heads = 8, .head_dim = 128, .attention_bias = true, .dropout = 0.1}},
      {.model_type = "granite",
       .architecture = "GraniteForCausalLM",
       .attention_bias = true,
       .mlp_bias = true,
       .head_dim = false,
       .multipliers = true},
      {.model_type = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .qk_norm = HeadNorm::all,
       .norm_place = NormPlace::after,
       .attention_bias = true,
       .head_dim = false,
       .defaults = {.norm_epsilon = 1e-5}},
      {.model_type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .packed = true,
       .head_dim = false,
       .window = Window::all_layers,
       .only_longrope = true,
       .partial_rope = true,
       .residual_dropout = "resid_pdrop",
       .defaults = {.norm_epsilon = 1e-5, .window = 0}},
      {.model_type = "gemma",
       .architecture = "GemmaForCausalLM",
       .norm_plus_one = true,
       .scaled_embedding = true,
       .attention_bias = true,
       .defaults = {.kv_heads = 16, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh"}},
      {.model_type = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .norm_place = NormPlace::both,
       .norm_plus_one = true,
       .scaled_embedding = true,
       .attention_bias = true,
       .window = Window::listed_layers,
       .query_scalar = true,
       .attention_cap = true,
       .logit_cap = true,
       .activation_field = "hidden_activation",
       .defaults = {.kv_heads = 4,
                    .head_dim = 256,
                    .tied = true,
                    .activation = "gelu_pytorch_tanh",
                    .attention_cap = 50,
                    .logit_cap = 30,
                    .global_every = 2}},
      {.model_type = "gemma3_text",
       .architecture = "Gemma3ForCausalLM",
       .qk_norm = HeadNorm::each,
       .norm_place = NormPlace::both,
       .norm_plus_one = true,
       .scaled_embedding = true,
       .attention_bias = true,
       .window = Window::listed_layers,
       .local_rope = true,
       .query_scalar = true,
       .logit_cap = true,
       .activation_field = "hidden_activation",
       .defaults = {.kv_heads = 4,
                    .head_dim = 256,
                    .rope_base = 1000000,
                    .tied = true,
                    .activation = "gelu_pytorch_tanh",
                    .global_every = 6}},
      {.model_type = "mixtral",
       .architecture = "MixtralForCausalLM",
       .head_dim = false,
       .window = Window::all_layers,
       .experts = ModelType::Experts{.block = "block_sparse_moe.",
                                     .gate = "w1",
                                     .up = "w3",
                                     .down = "w2",
                                     .count_field = "num_local_experts",
                                     .normalize_field = false,
                                     .count = 8,
                                     .choices = 2},
       .defaults = {.kv_heads = 8, .norm_epsilon = 1e-5, .rope_base = 1000000, .window = 0}},
      {.model_type = "olmoe",
       .architecture = "OlmoeForCausalLM",
       .qk_norm = HeadNorm::all,
       .attention_bias = true,
       .head_dim = false,
       .experts = ModelType::Experts{.block = "mlp.", .count = 64, .choices = 8},
       .defaults = {.norm_epsilon = 1e-5}},
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .qk_norm = HeadNorm::each,
       .attention_bias = true,
       .experts =
           ModelType::Experts{.block = "mlp.", .width_field = "moe_intermediate_size", .count = 128, .choices = 8},
       .defaults = {.kv_heads = 4}}};
  return kTypes;
}

bool fits_window(const ModelType& type, const Settings& settings) {
  if (settings.window == 0 || type.window == Window::listed_layers) return true;
  const bool everywhere = settings.window_layers < 0 || settings.window_layers >= settings.layers;
  if (settings.global_every > 0) return false;
  return type.window == Window::last_layers || (type.window == Window::all_layers && everywhere);
}

bool fits_qkv_bias(const ModelType& type, const Settings& settings) {
  return type.qkv_bias ? settings.qkv_bias : !settings.qkv_bias || type.attention_bias;
}

bool fits_output_bias(const ModelType& type, const Settings& settings) {
  if (type.output_bias) return true;
  return settings.output_bias == (type.attention_bias && settings.qkv_bias);
}

bool fits_rope_scaling(const ModelType& type, const Settings& settings) {
  using RopeKind = strata::models::RopeScaling::Kind;
  const RopeKind kind = settings.rope.scaling.kind;
  return !type.only_longrope || kind == RopeKind::none || kind == RopeKind::longrope;
}

bool is_plain_scale(const Settings& settings) {
  const double plain = 1 / std::sqrt(static_cast<double>(settings.head_dim));
  return settings.attention_multiplier == 0 || std::abs(settings.attention_multiplier / plain - 1) < 1e-9;
}

/// A property of models that not every type has.
struct Property {
  const char* option;
  bool (*fits)(const ModelType& type, const Settings& settings);
  std::string (*found)(const Settings& settings);
};

/// From those that tell families apart to those that few models have.
constexpr std::array kProperties{
    Property{"experts", [](const ModelType& t, const Settings& s) { return t.kind() == s.kind(); },
             [](const Settings& s) { return std::to_string(s.experts.count); }},
    Property{"norm_plus_one", [](const ModelType& t, const Settings& s) { return t.norm_plus_one == s.norm_plus_one; },
             [](const Settings& s) { return word_of(s.norm_plus_one); }},
    Property{"norm_place", [](const ModelType& t, const Settings& s) { return t.norm_place == s.norm_place; },
             [](const Settings& s) { return word_of(s.norm_place); }},
    Property{"scaled_embedding",
             [](const ModelType& t, const Settings& s) { return t.scaled_embedding == s.scaled_embedding; },
             [](const Settings& s) { return word_of(s.scaled_embedding); }},
    Property{"qk_norm", [](const ModelType& t, const Settings& s) { return t.qk_norm == s.qk_norm; },
             [](const Settings& s) { return word_of(s.qk_norm); }},
    Property{"qkv_bias", fits_qkv_bias, [](const Settings& s) { return word_of(s.qkv_bias); }},
    Property{"output_bias", fits_output_bias, [](const Settings& s) { return word_of(s.output_bias); }},
    Property{"mlp_bias", [](const ModelType& t, const Settings& s) { return t.mlp_bias || !s.mlp_bias; },
             [](const Settings& s) { return word_of(s.mlp_bias); }},
    Property{"embedding_multiplier",
             [](const ModelType& t, const Settings& s) { return t.multipliers || s.embedding_multiplier == 1; },
             [](const Settings& s) { return std::to_string(s.embedding_multiplier); }},
    Property{"residual_multiplier",
             [](const ModelType& t, const Settings& s) { return t.multipliers || s.residual_multiplier == 1; },
             [](const Settings& s) { return std::to_string(s.residual_multiplier); }},
    Property{"logits_scaling",
             [](const ModelType& t, const Settings& s) { return t.multipliers || s.logits_scaling == 1; },
             [](const Settings& s) { return std::to_string(s.logits_scaling); }},
    Property{"attention_multiplier",
             [](const ModelType& t, const Settings& s) { return t.multipliers || t.query_scalar || is_plain_scale(s); },
             [](const Settings& s) { return std::to_string(s.attention_multiplier); }},
    Property{"attention_cap",
             [](const ModelType& t, const Settings& s) { return t.attention_cap || s.attention_cap == 0; },
             [](const Settings& s) { return std::to_string(s.attention_cap); }},
    Property{"logit_cap", [](const ModelType& t, const Settings& s) { return t.logit_cap || s.logit_cap == 0; },
             [](const Settings& s) { return std::to_string(s.logit_cap); }},
    Property{"no_rope_every", [](const ModelType& t, const Settings& s) { return t.no_rope || s.no_rope_every == 0; },
             [](const Settings& s) { return std::to_string(s.no_rope_every); }},
    Property{"rope_scaling", fits_rope_scaling, [](const Settings& s) { return word_of(s.rope.scaling.kind); }},
    Property{"rope_fraction",
             [](const ModelType& t, const Settings& s) { return t.partial_rope || s.rope.fraction == 1; },
             [](const Settings& s) { return std::to_string(s.rope.fraction); }},
    Property{"local_rope_base",
             [](const ModelType& t, const Settings& s) { return t.local_rope == (s.local_rope_base > 0); },
             [](const Settings& s) { return std::to_string(s.local_rope_base); }},
    Property{"scores", [](const ModelType& /*t*/, const Settings& s) { return !s.experts.sigmoid; },
             [](const Settings& /*s*/) { return std::string("sigmoid"); }},
    Property{"shared_ffn", [](const ModelType& /*t*/, const Settings& s) { return s.experts.shared_width == 0; },
             [](const Settings& s) { return std::to_string(s.experts.shared_width); }},
    Property{"balance_bias", [](const ModelType& /*t*/, const Settings& s) { return s.experts.balance_bias == 0; },
             [](const Settings& s) { return std::to_string(s.experts.balance_bias); }},
    Property{"normalize",
             [](const ModelType& t, const Settings& s) {
               return !t.experts || t.experts->normalize_field || s.experts.normalize;
             },
             [](const Settings& s) { return word_of(s.experts.normalize); }},
    Property{"window", fits_window, [](const Settings& s) { return std::to_string(s.window); }},
    Property{
        "residual_dropout",
        [](const ModelType& t, const Settings& s) { return !t.residual_dropout.empty() || s.residual_dropout == 0; },
        [](const Settings& s) { return std::to_string(s.residual_dropout); }}};

/// The first property of a model that the type lacks, or the end.
const Property* first_misfit(const ModelType& type, const Settings& settings) {
  return std::find_if_not(kProperties.begin(), kProperties.end(),
                          [&](const Property& each) { return each.fits(type, settings); });
}

}  // namespace

const std::vector<ActivationName>& activation_names() {
  static const std::vector<ActivationName> kNames{{"silu", "silu"}, {"gelu_tanh", "gelu_pytorch_tanh"}};
  return kNames;
}

std::vector<std::string> model_type_names(Kind kind) {
  std::vector<std::string> names;
  for (const ModelType& type : model_types()) {
    if (type.kind() == kind) names.push_back(type.model_type);
  }
  return names;
}

const ModelType* find_model_type(const std::string& model_type) {
  const auto& types = model_types();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.model_type == model_type; });
  return found == types.end() ? nullptr : &*found;
}

const ModelType* find_type_of(const Settings& settings) {
  const ModelType* named = find_model_type(settings.model_type);
  if (named != nullptr && first_misfit(*named, settings) == kProperties.end()) return named;
  const auto& types = model_types();
  const auto found = std::find_if(types.begin(), types.end(), [&](const ModelType& each) {
    return first_misfit(each, settings) == kProperties.end();
  });
  return found == types.end() ? nullptr : &*found;
}

const ModelType& type_of(const Settings& settings) {
  if (const ModelType* found = find_type_of(settings)) return *found;
  // The property at which the type ends that has most of the first ones.
  const auto* missing = kProperties.begin();
  for (const ModelType& type : model_types()) missing = std::max(missing, first_misfit(type, settings));
  throw OptionError(missing->option, "found " + missing->found(settings) +
                                         "; accepted: another value, since no Hugging Face model type (" +
                                         strata::join(model_type_names(settings.kind()), ", ") +
                                         ") has this together with the model's other options");
}

}  // namespace llama
