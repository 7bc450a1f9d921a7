#pragma once

#include <string>
#include <vector>

#include "llama.hpp"

namespace llama {

/// The properties in which the model types of transformers differ.
struct ModelType {
  std::string model_type;
  std::string architecture;
  /// The norm of queries and keys, which such a model always or never has.
  bool qk_norm = false;
  /// Biases of queries, keys and values that such a model always has.
  bool qkv_bias = false;
  /// True if the field attention_bias gives biases to all four projections of the attention.
  bool attention_bias = false;
  /// True if the field mlp_bias exists.
  bool mlp_bias = false;
  /// True if files have the field head_dim in any case. Other files have it if it is not hidden_size /
  /// num_attention_heads.
  bool head_dim = true;
  /// The sizes of a file without the fields num_key_value_heads and head_dim. 0: num_attention_heads, and hidden_size /
  /// num_attention_heads.
  std::int64_t default_kv_heads = 0;
  std::int64_t default_head_dim = 0;
  enum class Window : std::uint8_t {
    none,
    all_layers,  ///< sliding_window
    last_layers  ///< use_sliding_window, sliding_window, max_window_layers, layer_types
  };
  Window window = Window::none;
};

/// The model_type of every Hugging Face type.
[[nodiscard]] std::vector<std::string> model_type_names();
/// The type named `model_type`, or null.
[[nodiscard]] const ModelType* find_model_type(const std::string& model_type);

/// The first type that can express a model. \throws strata::OptionError with the option that none can.
[[nodiscard]] const ModelType& model_type_of(const Settings& settings);

}  // namespace llama
