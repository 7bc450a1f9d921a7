#include <algorithm>
#include <cmath>
#include <utility>

#include "common/huggingface.hpp"
#include "model_type.hpp"
#include "strata/error.hpp"

namespace llama {
namespace {

using namespace strata;
using models::RopeScaling;
using Window = ModelType::Window;

/// An integral number as an integer, since config.json says 8192 and not 8192.0.
OptionValue integral(double value) {
  if (std::abs(value) < 1e15 && value == std::floor(value)) return OptionValue(static_cast<std::int64_t>(value));
  return OptionValue(value);
}

void write_rope(const models::Rope& rope, HuggingFaceFields& config) {
  config.set("rope_theta", OptionValue(rope.base));
  const RopeScaling& scaling = rope.scaling;
  const auto set = [&](const std::string& field, OptionValue value) { config.set("rope_scaling." + field, value); };
  if (scaling.kind == RopeScaling::Kind::none) return config.set_null("rope_scaling");
  set("factor", OptionValue(scaling.factor));
  set("rope_type", OptionValue(word_of(scaling.kind)));
  if (scaling.kind == RopeScaling::Kind::linear) return;
  set("original_max_position_embeddings", integral(scaling.original_context));
  if (scaling.kind == RopeScaling::Kind::llama3) {
    set("low_freq_factor", OptionValue(scaling.low_freq_factor));
    set("high_freq_factor", OptionValue(scaling.high_freq_factor));
    return;
  }
  if (scaling.attention_factor > 0) set("attention_factor", OptionValue(scaling.attention_factor));
  if (scaling.kind == RopeScaling::Kind::longrope) {
    set("short_factor", OptionValue(scaling.short_factors));
    set("long_factor", OptionValue(scaling.long_factors));
    return;
  }
  set("beta_fast", OptionValue(scaling.beta_fast));
  set("beta_slow", OptionValue(scaling.beta_slow));
}

void write_layer_types(const Settings& settings, HuggingFaceFields& config) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    types.emplace_back(settings.window_of(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  config.set("layer_types", OptionValue(types));
}

void write_window(const Settings& settings, const ModelType& type, HuggingFaceFields& config) {
  if (type.window == Window::none) return;
  const bool has_window = settings.window > 0;
  if (type.window == Window::listed_layers) {
    // Transformers demands one of Gemma even if no block has it.
    config.set("sliding_window", OptionValue(has_window ? settings.window : type.defaults.window));
    return write_layer_types(settings, config);
  }
  if (has_window) {
    config.set("sliding_window", OptionValue(settings.window));
  } else {
    config.set_null("sliding_window");
  }
  if (type.window == Window::all_layers) return;
  const bool everywhere = settings.window_layers < 0 || settings.window_layers > settings.layers;
  const std::int64_t windows = everywhere ? settings.layers : settings.window_layers;
  config.set("use_sliding_window", OptionValue(has_window));
  config.set("max_window_layers", OptionValue(has_window ? settings.layers - windows : settings.layers));
}

void write_activation(const Settings& settings, const ModelType& type, HuggingFaceFields& config) {
  for (const ActivationName& each : activation_names()) {
    if (each.option == settings.activation) config.set(type.activation_field, OptionValue(each.field));
  }
}

void write_cap(double cap, const char* field, HuggingFaceFields& config) {
  if (cap == 0) return config.set_null(field);
  config.set(field, OptionValue(cap));
}

void write_factors(const Settings& settings, const ModelType& type, HuggingFaceFields& config) {
  const double plain = 1 / std::sqrt(static_cast<double>(settings.head_dim));
  const double attention = settings.attention_multiplier > 0 ? settings.attention_multiplier : plain;
  if (type.multipliers) {
    config.set("embedding_multiplier", OptionValue(settings.embedding_multiplier));
    config.set("residual_multiplier", OptionValue(settings.residual_multiplier));
    config.set("attention_multiplier", OptionValue(attention));
    config.set("logits_scaling", OptionValue(settings.logits_scaling));
  }
  if (type.query_scalar) {
    // The root of an integer squared is not always that integer.
    const double scalar = 1 / (attention * attention);
    const double rounded = std::round(scalar);
    config.set("query_pre_attn_scalar", integral(std::abs(scalar / rounded - 1) < 1e-9 ? rounded : scalar));
  }
  if (type.attention_cap) write_cap(settings.attention_cap, "attn_logit_softcapping", config);
  if (type.logit_cap) write_cap(settings.logit_cap, "final_logit_softcapping", config);
}

void write_widths(const Settings& settings, const ModelType& type, HuggingFaceFields& config) {
  if (!type.experts) return config.set("intermediate_size", OptionValue(settings.ffn));
  config.set(type.experts->width_field, OptionValue(settings.ffn));
  config.set(type.experts->count_field, OptionValue(settings.experts.count));
  config.set("num_experts_per_tok", OptionValue(settings.experts.choices));
  if (type.experts->normalize_field) config.set("norm_topk_prob", OptionValue(settings.experts.normalize));
}

}  // namespace

HuggingFaceFields write_config(const Settings& settings, const ModelType& type, const DimSizes& sizes) {
  HuggingFaceFields config(
      {{"architectures", OptionValue(std::vector<std::string>{type.architecture})},
       {"model_type", OptionValue(type.model_type)},
       {"num_hidden_layers", OptionValue(settings.layers)},
       {"num_attention_heads", OptionValue(settings.heads)},
       {"num_key_value_heads", OptionValue(settings.kv_heads)},
       {"hidden_size", OptionValue(settings.embed)},
       {"max_position_embeddings", OptionValue(std::max(settings.context, settings.published_context))},
       {"vocab_size", OptionValue(models::size_of_dim("vocab", settings.vocab, sizes))},
       {"rms_norm_eps", OptionValue(settings.norm_epsilon)},
       {"tie_word_embeddings", OptionValue(settings.tied)},
       {"attention_dropout", OptionValue(settings.attention_dropout)}});
  write_widths(settings, type, config);
  if (type.head_dim || settings.head_dim * settings.heads != settings.embed) {
    config.set("head_dim", OptionValue(settings.head_dim));
  }
  if (type.attention_bias) config.set("attention_bias", OptionValue(settings.qkv_bias));
  if (type.mlp_bias) config.set("mlp_bias", OptionValue(settings.mlp_bias));
  if (type.output_bias) config.set("attention_out_bias", OptionValue(settings.output_bias));
  if (!type.residual_dropout.empty()) config.set(type.residual_dropout, OptionValue(settings.residual_dropout));
  write_activation(settings, type, config);
  write_factors(settings, type, config);
  write_rope(settings.rope, config);
  if (type.partial_rope) config.set("partial_rotary_factor", OptionValue(settings.rope.fraction));
  if (type.only_longrope && settings.rope.scaling.kind == RopeScaling::Kind::longrope) {
    // Transformers reads this field of such a model, not the one of the rotary positions.
    config.set("original_max_position_embeddings", integral(settings.rope.scaling.original_context));
  }
  if (type.local_rope) config.set("rope_local_base_freq", OptionValue(settings.local_rope_base));
  if (type.no_rope) config.set("no_rope_layer_interval", OptionValue(settings.no_rope_every));
  write_window(settings, type, config);
  return config;
}

}  // namespace llama
