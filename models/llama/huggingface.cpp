#include "common/huggingface.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "llama.hpp"
#include "model_type.hpp"
#include "strata/error.hpp"

namespace llama {
namespace {

using namespace strata;
using models::RopeScaling;
using Window = ModelType::Window;

OptionValue yes_no(bool value) { return OptionValue(std::string(value ? "yes" : "no")); }

/// Turns the fields of a config.json into options.
class OptionsReader {
 public:
  OptionsReader(const HuggingFaceFields& config, const ModelType& type) : config_(config), type_(type) {}

  Options run() {
    config_.require("hidden_act", OptionValue(std::string("silu")));
    models::require_plain_weights(config_);
    read_sizes();
    read_kind();
    read_rope();
    read_window();
    return std::move(options_);
  }

 private:
  void set(const char* option, OptionValue value) { options_.set(option, std::move(value)); }

  /// A size, which every file has.
  std::int64_t copy_size(const char* option, const char* field, std::optional<std::int64_t> otherwise = {}) {
    const std::int64_t size = models::checked_size(config_, field, otherwise);
    set(option, OptionValue(size));
    return size;
  }

  /// The size of a type of models that files leave out. Null stands for no such size.
  [[nodiscard]] std::optional<std::int64_t> default_size(const char* field, std::int64_t size) const {
    if (size == 0 || config_.contains(field)) return std::nullopt;
    return size;
  }

  void read_sizes() {
    layers_ = copy_size("layers", "num_hidden_layers");
    const std::int64_t heads = copy_size("heads", "num_attention_heads");
    copy_size("kv_heads", "num_key_value_heads",
              default_size("num_key_value_heads", type_.default_kv_heads).value_or(heads));
    const std::int64_t embed = copy_size("embed", "hidden_size");
    const std::optional<std::int64_t> default_head_dim = default_size("head_dim", type_.default_head_dim);
    if (!config_.has_value("head_dim") && !default_head_dim && embed % heads != 0) {
      throw OptionError("num_attention_heads", "found " + std::to_string(heads) +
                                                   "; accepted: a divisor of hidden_size = " + std::to_string(embed) +
                                                   ", or a field head_dim");
    }
    copy_size("head_dim", "head_dim", default_head_dim.value_or(embed / heads));
    copy_size("ffn", "intermediate_size");
    context_ = copy_size("context", "max_position_embeddings");
    set("published_context", OptionValue(context_));
    copy_size("vocab", "vocab_size");
  }

  void read_kind() {
    const double epsilon = config_.number("rms_norm_eps", 1e-6);
    if (!(epsilon > 0)) throw OptionError("rms_norm_eps", "found " + std::to_string(epsilon) + "; accepted: above 0");
    set("norm_epsilon", OptionValue(epsilon));
    set("tied", yes_no(config_.boolean("tie_word_embeddings", false)));
    const bool biases = type_.attention_bias && config_.boolean("attention_bias", false);
    set("qkv_bias", yes_no(biases || type_.qkv_bias));
    set("output_bias", yes_no(biases));
    set("mlp_bias", yes_no(type_.mlp_bias && config_.boolean("mlp_bias", false)));
    set("qk_norm", yes_no(type_.qk_norm));
    set("attention_dropout", OptionValue(config_.number("attention_dropout", 0.0)));
  }

  /// The path of a field of the rotary scaling. Files of transformers 5 have rope_parameters, older ones rope_scaling.
  [[nodiscard]] std::string rope(const std::string& field) const {
    return (config_.has_value("rope_scaling") ? "rope_scaling." : "rope_parameters.") + field;
  }

  void copy_number(const char* option, const std::string& field, std::optional<double> otherwise = {}) {
    const double value = config_.number(field, otherwise);
    if (!(value > 0)) throw OptionError(field, "found " + std::to_string(value) + "; accepted: above 0");
    set(option, OptionValue(value));
  }

  void read_rope() {
    copy_number("rope_base", config_.has_value(rope("rope_theta")) ? rope("rope_theta") : "rope_theta", 10000.0);
    config_.require(rope("partial_rotary_factor"), OptionValue(1.0));
    config_.require("partial_rotary_factor", OptionValue(1.0));
    const std::string key = rope(config_.has_value(rope("rope_type")) ? "rope_type" : "type");
    const std::string type = config_.word(key, "default");
    set("rope_scaling", OptionValue(type == "default" ? std::string("none") : type));
    if (type == "default") return;
    if (type != "linear" && type != "llama3" && type != "yarn") {
      throw OptionError(key, "found \"" + type + "\"; accepted: \"default\", \"linear\", \"llama3\", \"yarn\"");
    }
    copy_number("rope_factor", rope("factor"));
    if (type == "linear") return;
    // Transformers prefers the field of the file to the one of the rotary positions.
    const std::string original = "original_max_position_embeddings";
    const bool is_outer = config_.has_value(original);
    copy_number("rope_original_context", is_outer ? original : rope(original), static_cast<double>(context_));
    if (type == "llama3") {
      copy_number("rope_low_freq_factor", rope("low_freq_factor"));
      copy_number("rope_high_freq_factor", rope("high_freq_factor"));
      return;
    }
    copy_number("rope_beta_fast", rope("beta_fast"), 32.0);
    copy_number("rope_beta_slow", rope("beta_slow"), 1.0);
    config_.require(rope("truncate"), OptionValue(true));
    if (config_.has_value(rope("attention_factor"))) {
      return copy_number("rope_attention_factor", rope("attention_factor"));
    }
    for (const char* scale : {"mscale", "mscale_all_dim"}) {
      if (!config_.has_value(rope(scale))) continue;
      throw OptionError(rope(scale), "found one; accepted: none, or a field attention_factor");
    }
  }

  void read_window() {
    const bool uses = type_.window == Window::all_layers ||
                      (type_.window == Window::last_layers && config_.boolean("use_sliding_window", false));
    // In transformers, a file without the field means 4096, and null means none.
    const bool is_null = config_.contains("sliding_window") && !config_.has_value("sliding_window");
    const bool has_window = uses && !is_null;
    require_layer_types(has_window);
    set("window", OptionValue(std::int64_t{0}));
    if (!has_window) return;
    copy_size("window", "sliding_window", 4096);
    if (type_.window == Window::last_layers) set("window_layers", OptionValue(window_layers()));
  }

  /// Blocks with the window, counted from the last.
  [[nodiscard]] std::int64_t window_layers() const {
    return layers_ - std::clamp<std::int64_t>(config_.integer("max_window_layers", 28), 0, layers_);
  }

  /// Checks that the kinds of layers, if the file has them, are those that the other fields give.
  void require_layer_types(bool has_window) const {
    const std::vector<std::string> types = config_.words("layer_types");
    if (types.empty() || type_.window == Window::none) return;
    const std::int64_t all = type_.window == Window::all_layers ? layers_ : window_layers();
    const std::int64_t windows = has_window ? all : 0;
    std::vector<std::string> expected(static_cast<std::size_t>(std::min<std::int64_t>(layers_, 4096)),
                                      "full_attention");
    for (std::int64_t i = 0; i < std::min(windows, std::ssize(expected)); ++i) {
      expected[expected.size() - 1 - static_cast<std::size_t>(i)] = "sliding_attention";
    }
    if (types == expected) return;
    throw OptionError("layer_types", "found other layers with a window than the fields say; accepted: the last " +
                                         std::to_string(windows) +
                                         " as \"sliding_attention\" and all others as "
                                         "\"full_attention\"");
  }

  const HuggingFaceFields& config_;
  const ModelType& type_;
  Options options_;
  std::int64_t layers_ = 0;
  std::int64_t context_ = 0;
};

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
  if (scaling.kind == RopeScaling::Kind::linear) return set("rope_type", OptionValue(std::string("linear")));
  set("original_max_position_embeddings", integral(scaling.original_context));
  if (scaling.kind == RopeScaling::Kind::llama3) {
    set("rope_type", OptionValue(std::string("llama3")));
    set("low_freq_factor", OptionValue(scaling.low_freq_factor));
    set("high_freq_factor", OptionValue(scaling.high_freq_factor));
    return;
  }
  set("rope_type", OptionValue(std::string("yarn")));
  set("beta_fast", OptionValue(scaling.beta_fast));
  set("beta_slow", OptionValue(scaling.beta_slow));
  if (scaling.attention_factor > 0) set("attention_factor", OptionValue(scaling.attention_factor));
}

void write_window(const Settings& settings, const ModelType& type, HuggingFaceFields& config) {
  if (type.window == Window::none) return;
  const bool has_window = settings.window > 0;
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

/// Lists the tensors of the Hugging Face model, whose names are those of the parameters.
class TensorList {
 public:
  explicit TensorList(const Settings& settings) : s_(settings) {}

  void add(const std::string& name, Shape shape) {
    list_.push_back({.name = name, .parameter = name, .shape = std::move(shape)});
  }

  void add_layer(const std::string& layer) {
    const std::int64_t queries = s_.heads * s_.head_dim;
    const std::int64_t keys = s_.kv_heads * s_.head_dim;
    const std::string attention = layer + "self_attn.";
    add(layer + "input_layernorm.weight", {s_.embed});
    add(layer + "post_attention_layernorm.weight", {s_.embed});
    add_linear(attention + "q_proj", queries, s_.embed, s_.qkv_bias);
    add_linear(attention + "k_proj", keys, s_.embed, s_.qkv_bias);
    add_linear(attention + "v_proj", keys, s_.embed, s_.qkv_bias);
    add_linear(attention + "o_proj", s_.embed, queries, s_.output_bias);
    if (s_.qk_norm) {
      add(attention + "q_norm.weight", {s_.head_dim});
      add(attention + "k_norm.weight", {s_.head_dim});
    }
    add_linear(layer + "mlp.gate_proj", s_.ffn, s_.embed, s_.mlp_bias);
    add_linear(layer + "mlp.up_proj", s_.ffn, s_.embed, s_.mlp_bias);
    add_linear(layer + "mlp.down_proj", s_.embed, s_.ffn, s_.mlp_bias);
  }

  std::vector<HuggingFaceTensor> take() { return std::move(list_); }

 private:
  /// A linear layer of PyTorch, whose weight is [out in].
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add(name + ".weight", {out, in});
    list_.back().transposed = true;
    if (bias) add(name + ".bias", {out});
  }

  const Settings& s_;
  std::vector<HuggingFaceTensor> list_;
};

}  // namespace

std::vector<std::string> LlamaFormat::families() const { return model_type_names(); }

std::optional<Options> LlamaFormat::options(const HuggingFaceFields& config) const {
  const ModelType* type = find_model_type(config.word("model_type", ""));
  if (type == nullptr) return std::nullopt;
  return OptionsReader(config, *type).run();
}

HuggingFaceFields LlamaFormat::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  const ModelType& type = model_type_of(settings);
  HuggingFaceFields config(
      {{"architectures", OptionValue(std::vector<std::string>{type.architecture})},
       {"model_type", OptionValue(type.model_type)},
       {"hidden_act", OptionValue(std::string("silu"))},
       {"num_hidden_layers", OptionValue(settings.layers)},
       {"num_attention_heads", OptionValue(settings.heads)},
       {"num_key_value_heads", OptionValue(settings.kv_heads)},
       {"hidden_size", OptionValue(settings.embed)},
       {"intermediate_size", OptionValue(settings.ffn)},
       {"max_position_embeddings", OptionValue(std::max(settings.context, settings.published_context))},
       {"vocab_size", OptionValue(models::vocabulary_rows(settings.vocab, sizes))},
       {"rms_norm_eps", OptionValue(settings.norm_epsilon)},
       {"tie_word_embeddings", OptionValue(settings.tied)},
       {"attention_dropout", OptionValue(settings.attention_dropout)}});
  if (type.head_dim || settings.head_dim * settings.heads != settings.embed) {
    config.set("head_dim", OptionValue(settings.head_dim));
  }
  if (type.attention_bias) config.set("attention_bias", OptionValue(settings.qkv_bias));
  if (type.mlp_bias) config.set("mlp_bias", OptionValue(settings.mlp_bias));
  write_rope(settings.rope, config);
  write_window(settings, type, config);
  return config;
}

HuggingFaceTensors LlamaFormat::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  TensorList list(settings);
  const Shape table{models::vocabulary_rows(settings.vocab, sizes), settings.embed};
  list.add("model.embed_tokens.weight", table);
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    list.add_layer("model.layers." + std::to_string(layer) + ".");
  }
  list.add("model.norm.weight", {settings.embed});
  HuggingFaceTensors tensors;
  tensors.ignored = {"*.rotary_emb.inv_freq"};
  tensors.optional_prefix = "model.";
  if (settings.tied) {
    tensors.copies["lm_head.weight"] = "model.embed_tokens.weight";
  } else {
    list.add("lm_head.weight", table);
  }
  tensors.tensors = list.take();
  return tensors;
}

}  // namespace llama
