#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llama.hpp"

namespace llama {

/// The properties in which the model types of transformers differ. A property without a field is one that such a model
/// always has, or never.
struct ModelType {
  std::string model_type;
  std::string architecture;
  HeadNorm qk_norm = HeadNorm::none;
  NormPlace norm_place = NormPlace::before;
  bool norm_plus_one = false;
  bool scaled_embedding = false;
  /// True if files hold queries, keys and values as one matrix, and gate and up as another.
  bool packed = false;
  /// Biases of queries, keys and values that such a model always has.
  bool qkv_bias = false;
  /// True if the field attention_bias gives biases to queries, keys and values, and to the attention's output.
  bool attention_bias = false;
  /// True if the field attention_out_bias exists, and attention_bias says nothing of the output.
  bool output_bias = false;
  /// True if the field mlp_bias exists.
  bool mlp_bias = false;
  /// True if files have the field head_dim in any case. Other files have it if it is not hidden_size /
  /// num_attention_heads.
  bool head_dim = true;
  enum class Window : std::uint8_t {
    none,
    all_layers,    ///< sliding_window
    last_layers,   ///< use_sliding_window, sliding_window, max_window_layers, layer_types
    listed_layers  ///< sliding_window, layer_types
  };
  Window window = Window::none;
  /// True if transformers stretches the angles of such a model by "longrope" or not at all.
  bool only_longrope = false;
  /// True if the field partial_rotary_factor exists.
  bool partial_rope = false;
  /// True if blocks with the window have angles of their own.
  bool local_rope = false;
  /// True if the fields no_rope_layers and no_rope_layer_interval exist.
  bool no_rope = false;
  /// True if the fields embedding_multiplier, residual_multiplier, attention_multiplier and logits_scaling exist.
  bool multipliers = false;
  /// True if the field query_pre_attn_scalar exists: attention's factor is its inverse root.
  bool query_scalar = false;
  /// True if the fields attn_logit_softcapping and final_logit_softcapping exist.
  bool attention_cap = false;
  bool logit_cap = false;
  /// How files have experts. Empty: the type has none.
  struct Experts {
    /// The beginnings of the names of a block, and the names of an expert's matrices.
    std::string block;
    std::string gate = "gate_proj";
    std::string up = "up_proj";
    std::string down = "down_proj";
    /// The fields of the number of experts and of their inner width.
    std::string count_field = "num_experts";
    std::string width_field = "intermediate_size";
    /// True if the field norm_topk_prob exists. Without it, gates are normalised.
    bool normalize_field = true;
    std::int64_t count = 0;
    std::int64_t choices = 0;
  };
  std::optional<Experts> experts = std::nullopt;
  /// The fields of the gate's function and of dropout on the results of branches. Empty: there is none.
  std::string activation_field = "hidden_act";
  std::string residual_dropout = {};

  /// What a file means that lacks a field. The first two, if 0: num_attention_heads, and hidden_size /
  /// num_attention_heads.
  struct Defaults {
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    double norm_epsilon = 1e-6;
    double rope_base = 10000;
    bool tied = false;
    bool attention_bias = false;
    std::string activation = "silu";
    double dropout = 0;
    double attention_cap = 0;
    double logit_cap = 0;
    std::int64_t window = 4096;
    /// Listed layers: every so many, one sees everything. 0: none.
    std::int64_t global_every = 0;
  };
  Defaults defaults = {};

  [[nodiscard]] Kind kind() const { return experts ? Kind::mixture : Kind::dense; }
};

/// The names of a gate's function in this plugin's options and in a config.json.
struct ActivationName {
  std::string option;
  std::string field;
};
[[nodiscard]] const std::vector<ActivationName>& activation_names();

/// The model_type of every Hugging Face type of that kind.
[[nodiscard]] std::vector<std::string> model_type_names(Kind kind);
/// The type named `model_type`, or null.
[[nodiscard]] const ModelType* find_model_type(const std::string& model_type);

/// The type that a model names, or else the first, that can express it. Null if none can.
[[nodiscard]] const ModelType* find_type_of(const Settings& settings);
/// The same. \throws strata::OptionError with the option that none can express.
[[nodiscard]] const ModelType& type_of(const Settings& settings);

/// The options of the model that a config.json describes. \throws strata::OptionError with the field that the model
/// cannot compute.
[[nodiscard]] strata::Options read_config(const strata::HuggingFaceFields& config, const ModelType& type);
/// The config.json of a model of that type.
[[nodiscard]] strata::HuggingFaceFields write_config(const Settings& settings, const ModelType& type,
                                                     const strata::DimSizes& sizes);

}  // namespace llama
