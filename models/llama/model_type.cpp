#include "model_type.hpp"

#include <algorithm>
#include <array>

#include "strata/error.hpp"

namespace llama {
namespace {

using strata::OptionError;
using Window = ModelType::Window;

const std::array<ModelType, 4>& model_types() {
  static const std::array<ModelType, 4> kTypes{
      {{.model_type = "llama", .architecture = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true},
       {.model_type = "mistral",
        .architecture = "MistralForCausalLM",
        .default_kv_heads = 8,
        .window = Window::all_layers},
       {.model_type = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .qkv_bias = true,
        .head_dim = false,
        .default_kv_heads = 32,
        .window = Window::last_layers},
       {.model_type = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .qk_norm = true,
        .attention_bias = true,
        .default_kv_heads = 32,
        .default_head_dim = 128,
        .window = Window::last_layers}}};
  return kTypes;
}

/// True if the window of the model is one that the type has.
bool fits_window(const ModelType& type, const Settings& settings) {
  if (settings.window == 0) return true;
  const bool everywhere = settings.window_layers < 0 || settings.window_layers >= settings.layers;
  return type.window == Window::last_layers || (type.window == Window::all_layers && everywhere);
}

bool fits_biases(const ModelType& type, const Settings& settings) {
  if (settings.mlp_bias && !type.mlp_bias) return false;
  if (type.qkv_bias) return settings.qkv_bias && !settings.output_bias;
  return settings.qkv_bias == settings.output_bias && (!settings.qkv_bias || type.attention_bias);
}

bool fits(const ModelType& type, const Settings& settings) {
  return type.qk_norm == settings.qk_norm && fits_biases(type, settings) && fits_window(type, settings);
}

}  // namespace

std::vector<std::string> model_type_names() {
  std::vector<std::string> names;
  for (const ModelType& type : model_types()) names.push_back(type.model_type);
  return names;
}

const ModelType* find_model_type(const std::string& model_type) {
  const auto& types = model_types();
  const auto* found =
      std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.model_type == model_type; });
  return found == types.end() ? nullptr : found;
}

const ModelType& model_type_of(const Settings& settings) {
  for (const ModelType& type : model_types()) {
    if (fits(type, settings)) return type;
  }
  const std::string together = "; no Hugging Face model type (llama, mistral, qwen2, qwen3) has this together with ";
  if (settings.output_bias != settings.qkv_bias && settings.output_bias) {
    throw OptionError("output_bias", "found yes; accepted: no, or qkv_bias = \"yes\" too" + together + "qkv_bias = no");
  }
  if (settings.mlp_bias) {
    throw OptionError("mlp_bias", "found yes; accepted: no" + together + "the model's other options");
  }
  if (settings.window > 0) {
    throw OptionError("window", "found " + std::to_string(settings.window) + "; accepted: 0" + together +
                                    "the model's biases, norms or window_layers");
  }
  throw OptionError(settings.qkv_bias ? "qkv_bias" : "qk_norm",
                    "found yes; accepted: no" + together + "the model's biases or norms");
}

}  // namespace llama
