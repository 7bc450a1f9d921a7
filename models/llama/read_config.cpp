#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "common/huggingface.hpp"
#include "model_type.hpp"
#include "strata/error.hpp"

namespace llama {
namespace {

using namespace strata;
using Window = ModelType::Window;

/// The kinds of blocks, with a window and without, in the field layer_types.
constexpr const char* kGlobal = "full_attention";
constexpr const char* kLocal = "sliding_attention";

OptionValue word_option(bool value) { return OptionValue(word_of(value)); }

/// Turns the fields of a config.json into options.
class OptionsReader {
 public:
  OptionsReader(const HuggingFaceFields& config, const ModelType& type) : config_(config), type_(type) {}

  Options run() {
    models::require_plain_weights(config_);
    config_.require("use_bidirectional_attention", OptionValue(false));
    read_sizes();
    read_activation();
    read_kind();
    read_factors();
    read_rope();
    read_no_rope();
    read_window();
    if (type_.experts) read_experts(*type_.experts);
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
              default_size("num_key_value_heads", type_.defaults.kv_heads).value_or(heads));
    const std::int64_t embed = copy_size("embed", "hidden_size");
    const std::optional<std::int64_t> default_head_dim = default_size("head_dim", type_.defaults.head_dim);
    if (!config_.has_value("head_dim") && !default_head_dim && embed % heads != 0) {
      throw OptionError("num_attention_heads", "found " + std::to_string(heads) +
                                                   "; accepted: a divisor of hidden_size = " + std::to_string(embed) +
                                                   ", or a field head_dim");
    }
    copy_size("head_dim", "head_dim", default_head_dim.value_or(embed / heads));
    copy_size("ffn", type_.experts ? type_.experts->width_field.c_str() : "intermediate_size");
    context_ = copy_size("context", "max_position_embeddings");
    set("published_context", OptionValue(context_));
    copy_size("vocab", "vocab_size");
  }

  void read_activation() {
    const std::string& field = type_.activation_field;
    const std::string name = config_.word(field, type_.defaults.activation);
    // The first files of Gemma say "gelu" and mean its approximation.
    const bool is_legacy = type_.model_type == "gemma" && name == "gelu";
    std::vector<std::string> accepted;
    for (const ActivationName& each : activation_names()) {
      if (each.field == (is_legacy ? type_.defaults.activation : name)) {
        return set("activation", OptionValue(each.option));
      }
      accepted.push_back('"' + each.field + '"');
    }
    throw OptionError(field, "found \"" + name + "\"; accepted: " + join(accepted, ", "));
  }

  void read_kind() {
    const double epsilon = config_.number("rms_norm_eps", type_.defaults.norm_epsilon);
    if (!(epsilon > 0)) throw OptionError("rms_norm_eps", "found " + std::to_string(epsilon) + "; accepted: above 0");
    set("norm_epsilon", OptionValue(epsilon));
    set("norm_plus_one", word_option(type_.norm_plus_one));
    set("norm_place", OptionValue(word_of(type_.norm_place)));
    set("qk_norm", OptionValue(word_of(type_.qk_norm)));
    set("tied", word_option(config_.boolean("tie_word_embeddings", type_.defaults.tied)));
    set("model_type", OptionValue(type_.model_type));
    const bool biases = type_.attention_bias && config_.boolean("attention_bias", type_.defaults.attention_bias);
    set("qkv_bias", word_option(biases || type_.qkv_bias));
    set("output_bias", word_option(type_.output_bias ? config_.boolean("attention_out_bias", false) : biases));
    if (!type_.experts) set("mlp_bias", word_option(type_.mlp_bias && config_.boolean("mlp_bias", false)));
    set("attention_dropout", OptionValue(config_.number("attention_dropout", type_.defaults.dropout)));
    if (type_.residual_dropout.empty()) return;
    set("residual_dropout", OptionValue(config_.number(type_.residual_dropout, type_.defaults.dropout)));
  }

  void read_experts(const ModelType::Experts& experts) {
    // Files of transformers 5 have the name of Mixtral for all types.
    const bool has_new_name = config_.has_value("num_local_experts");
    copy_size("experts", has_new_name ? "num_local_experts" : experts.count_field.c_str(), experts.count);
    copy_size("choices", "num_experts_per_tok", experts.choices);
    set("normalize", word_option(!experts.normalize_field || config_.boolean("norm_topk_prob", false)));
    config_.require("use_sliding_window", OptionValue(false));
    config_.require("router_jitter_noise", OptionValue(0.0));
    config_.require("decoder_sparse_step", OptionValue(std::int64_t{1}));
    if (config_.has_value("clip_qkv")) throw OptionError("clip_qkv", "found one; accepted: null");
    const OptionValue* dense = config_.find("mlp_only_layers");
    if (dense == nullptr) return;
    const auto* layers = std::get_if<std::vector<double>>(dense);
    if (layers != nullptr && layers->empty()) return;
    throw OptionError("mlp_only_layers", "found layers without experts; accepted: []");
  }

  void read_factors() {
    set("scaled_embedding", word_option(type_.scaled_embedding));
    if (type_.multipliers) {
      for (const char* field :
           {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"}) {
        copy_number(field, field, 1.0);
      }
    }
    if (type_.query_scalar) {
      const double scalar = config_.number("query_pre_attn_scalar", 256);
      if (!(scalar > 0)) {
        throw OptionError("query_pre_attn_scalar", "found " + std::to_string(scalar) + "; accepted: above 0");
      }
      set("attention_multiplier", OptionValue(1 / std::sqrt(scalar)));
    }
    read_cap("attention_cap", "attn_logit_softcapping", type_.attention_cap, type_.defaults.attention_cap);
    read_cap("logit_cap", "final_logit_softcapping", type_.logit_cap, type_.defaults.logit_cap);
  }

  /// Null means no cap. `otherwise`: what a file without the field means; 0: no cap.
  void read_cap(const char* option, const char* field, bool exists, double otherwise) {
    if (!exists || (!config_.contains(field) && otherwise == 0)) return;
    if (config_.has_value(field) || !config_.contains(field)) copy_number(option, field, otherwise);
  }

  /// The path of a field of the rotary scaling. Files of transformers 5 have rope_parameters, older ones rope_scaling.
  [[nodiscard]] std::string rope(const std::string& field) const {
    if (config_.has_value("rope_scaling")) return "rope_scaling." + field;
    return (has_rope_of_kinds() ? "rope_parameters.full_attention." : "rope_parameters.") + field;
  }
  /// True if rope_parameters are those of blocks without the window, and others.
  [[nodiscard]] bool has_rope_of_kinds() const {
    return type_.local_rope && config_.has_value("rope_parameters.full_attention");
  }

  void read_local_rope() {
    if (!type_.local_rope) return;
    const std::string local = "rope_parameters.sliding_attention.";
    if (has_rope_of_kinds()) config_.require(local + "rope_type", OptionValue(std::string("default")));
    copy_number("local_rope_base", has_rope_of_kinds() ? local + "rope_theta" : "rope_local_base_freq", 10000.0);
  }

  /// The list of the blocks that have rotary positions, as 1 and 0, or the distance of those that have none.
  void read_no_rope() {
    if (!type_.no_rope) return;
    config_.require("use_sliding_window", OptionValue(false));
    const OptionValue* list = config_.find("no_rope_layers");
    if (list == nullptr) {
      return set("no_rope_every", OptionValue(models::checked_size(config_, "no_rope_layer_interval", 4)));
    }
    const auto* layers = std::get_if<std::vector<double>>(list);
    const std::int64_t count = layers == nullptr ? 0 : std::min(std::ssize(*layers), layers_);
    const std::int64_t every =
        count == 0 ? 0 : std::find(layers->begin(), layers->begin() + count, 0.0) - layers->begin() + 1;
    for (std::int64_t i = 0; i < layers_; ++i) {
      if (i < count && ((*layers)[static_cast<std::size_t>(i)] != 0) == ((i + 1) % every != 0)) continue;
      throw OptionError("no_rope_layers",
                        "found other blocks without rotary positions; accepted: as many numbers as "
                        "num_hidden_layers, 0 for every N-th block and 1 for all others");
    }
    if (every <= layers_) set("no_rope_every", OptionValue(every));
  }

  void copy_number(const char* option, const std::string& field, std::optional<double> otherwise = {}) {
    const double value = config_.number(field, otherwise);
    if (!(value > 0)) throw OptionError(field, "found " + std::to_string(value) + "; accepted: above 0");
    set(option, OptionValue(value));
  }

  /// \throws OptionError unless the field is an object, null or missing.
  void require_object(const std::string& field) const {
    const OptionValue* found = config_.find(field);
    if (found != nullptr) throw OptionError(field, "found " + to_string(*found) + "; accepted: an object or null");
  }

  void read_rope() {
    for (const char* field : {"rope_scaling", "rope_parameters"}) require_object(field);
    copy_number("rope_base", config_.has_value(rope("rope_theta")) ? rope("rope_theta") : "rope_theta",
                type_.defaults.rope_base);
    read_local_rope();
    read_rope_fraction();
    const std::string type = rope_type();
    set("rope_scaling", OptionValue(type == "default" ? std::string("none") : type));
    if (type == "default") return;
    if (type != "longrope" || config_.has_value(rope("factor"))) copy_number("rope_factor", rope("factor"));
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
    if (config_.has_value(rope("attention_factor"))) copy_number("rope_attention_factor", rope("attention_factor"));
    type == "yarn" ? read_yarn() : read_longrope();
  }

  /// The kind of scaling in the words of the option, but for "default".
  [[nodiscard]] std::string rope_type() const {
    const std::string key = rope(config_.has_value(rope("rope_type")) ? "rope_type" : "type");
    std::string type = config_.word(key, "default");
    // In transformers, a Phi-3 has no other scaling, and older files have other names for it.
    if (type_.only_longrope && (type == "su" || type == "yarn")) type = "longrope";
    std::vector<std::string> accepted{"default", "longrope"};
    if (!type_.only_longrope) accepted = {"default", "linear", "llama3", "yarn", "longrope"};
    if (contains(accepted, type)) return type;
    throw OptionError(key, "found \"" + type + "\"; accepted: \"" + join(accepted, "\", \"") + '"');
  }

  void read_rope_fraction() {
    const std::string name = "partial_rotary_factor";
    const std::string field = config_.has_value(rope(name)) ? rope(name) : name;
    if (type_.partial_rope) return copy_number("rope_fraction", field, 1.0);
    config_.require(field, OptionValue(1.0));
  }

  void read_longrope() {
    for (const auto& [option, field] :
         {std::pair{"rope_short_factors", "short_factor"}, std::pair{"rope_long_factors", "long_factor"}}) {
      const auto* factors = std::get_if<std::vector<double>>(config_.find(rope(field)));
      if (factors == nullptr) throw OptionError(rope(field), "is no list of numbers; accepted: one for each angle");
      set(option, OptionValue(*factors));
    }
  }

  void read_yarn() {
    copy_number("rope_beta_fast", rope("beta_fast"), 32.0);
    copy_number("rope_beta_slow", rope("beta_slow"), 1.0);
    config_.require(rope("truncate"), OptionValue(true));
    if (config_.has_value(rope("attention_factor"))) return;
    for (const char* scale : {"mscale", "mscale_all_dim"}) {
      if (!config_.has_value(rope(scale))) continue;
      throw OptionError(rope(scale), "found one; accepted: none, or a field attention_factor");
    }
  }

  void read_window() {
    const bool uses = type_.window != Window::none &&
                      (type_.window != Window::last_layers || config_.boolean("use_sliding_window", false));
    const bool is_missing = !config_.contains("sliding_window");
    // In transformers, null means none.
    const bool has_window = uses && (config_.has_value("sliding_window") || (is_missing && type_.defaults.window > 0));
    set("window", OptionValue(std::int64_t{0}));
    if (type_.window == Window::listed_layers) {
      if (!read_listed_layers(has_window)) return;
    } else {
      require_layer_types(has_window);
    }
    if (!has_window) return;
    copy_size("window", "sliding_window", type_.defaults.window);
    if (type_.window == Window::last_layers) set("window_layers", OptionValue(window_layers()));
  }

  /// \return false if no block has the window.
  bool read_listed_layers(bool has_window) {
    const std::vector<std::string> types = config_.words("layer_types");
    if (types.empty()) {
      const std::int64_t every = config_.integer("sliding_window_pattern", type_.defaults.global_every);
      if (every > 0) set("global_every", OptionValue(every));
      return has_window;
    }
    const auto is_global = [&](std::int64_t i) { return types[static_cast<std::size_t>(i)] == kGlobal; };
    const std::int64_t count = std::ssize(types);
    const std::int64_t first_global = std::find(types.begin(), types.end(), kGlobal) - types.begin();
    const std::int64_t first_local = std::find(types.begin(), types.end(), kLocal) - types.begin();
    bool fits = count == layers_ && (has_window || first_local == count);
    for (std::int64_t i = 0; i < count && fits; ++i) {
      // Either the last blocks have the window, or all but every N-th.
      const bool expected = first_local > 0 ? i < first_local : (i + 1) % (first_global + 1) == 0;
      fits = is_global(i) == expected && (is_global(i) || types[static_cast<std::size_t>(i)] == kLocal);
    }
    if (!fits) {
      throw OptionError("layer_types",
                        std::string("found other layers; accepted: one for each of num_hidden_layers, \"") + kGlobal +
                            "\" for all, for the first, or for every N-th, and \"" + kLocal +
                            "\" for the others, with a sliding_window");
    }
    if (first_local == count) return false;
    if (first_local > 0) set("window_layers", OptionValue(count - first_local));
    if (first_local == 0 && first_global < count) set("global_every", OptionValue(first_global + 1));
    return true;
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
    std::vector<std::string> expected(static_cast<std::size_t>(std::min<std::int64_t>(layers_, 4096)), kGlobal);
    for (std::int64_t i = 0; i < std::min(windows, std::ssize(expected)); ++i) {
      expected[expected.size() - 1 - static_cast<std::size_t>(i)] = kLocal;
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

}  // namespace

Options read_config(const HuggingFaceFields& config, const ModelType& type) {
  return OptionsReader(config, type).run();
}

}  // namespace llama
