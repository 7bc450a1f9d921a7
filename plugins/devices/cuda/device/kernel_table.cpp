#include <map>

#include "device/fitting.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {

const KernelEntry* find_kernel(const std::string& op) {
  static const std::map<std::string, KernelEntry> kTable = {
      {"add", {"tt", "t", prepare_add, true, unsupported_add}},
      {"sum", {"t*", "t", prepare_sum, true, unsupported_sum}},
      {"cast", {"r", "r", prepare_cast, true}},
      {"scale_gradient", {"t", "t", prepare_scale_gradient, true}},
      {"fill_zero", {"", "s", prepare_fill_zero}},
      {"accumulate", {"s", "s", prepare_accumulate}},
      {"activation", {"t", "t", prepare_activation, true}},
      {"activation_gradient", {"tt", "t", prepare_activation_gradient, true}},
      {"reduce_sum", {"t", "f", prepare_reduce_sum, true, unsupported_reduce_sum}},
      {"sum_of_squares", {"t", "d", prepare_sum_of_squares, true}},
      {"linear", {"tt", "r", prepare_linear, true, unsupported_linear}},
      {"linear_bias", {"ttt", "r", prepare_linear_bias, true, unsupported_linear_bias}},
      {"linear_bias_activation",
       {"ttt", "t*", prepare_linear_bias_activation, false, unsupported_linear_bias_activation}},
      {"linear_activation_gradient",
       {"ttt", "t", prepare_linear_activation_gradient, false, unsupported_linear_activation_gradient}},
      {"embedding", {"ti", "t", prepare_embedding}},
      {"embedding_gradient", {"ti", "f", prepare_embedding_gradient, true}},
      {"layer_norm", {"tff", "tff", prepare_layer_norm}},
      {"layer_norm_input_gradient", {"ttfff", "t", prepare_layer_norm_input_gradient, true}},
      {"layer_norm_parameter_gradient", {"ttff", "ff", prepare_layer_norm_parameter_gradient, true}},
      {"dropout", {"t", "t", prepare_dropout, true, unsupported_dropout}},
      {"dropout_add", {"tt", "t", prepare_dropout_add, true, unsupported_dropout}},
      {"attention", {"ttt", "rf", prepare_attention, false, unsupported_attention}},
      {"attention_gradient", {"ttttft", "rrr", prepare_attention_gradient, false, unsupported_attention}},
      {"attention_merge", {"ffff", "ff", prepare_attention_merge}},
      {"row_max", {"t", "f", prepare_row_max}},
      {"sum_exponentials", {"tf", "f", prepare_sum_exponentials}},
      {"log_sum_exponential", {"ff", "f", prepare_log_sum_exponential}},
      {"pick", {"ti", "f", prepare_pick}},
      {"cross_entropy_sum", {"ffi", "d", prepare_cross_entropy_sum, true}},
      {"count_targets", {"i", "d", prepare_count_targets, true}},
      {"cross_entropy_gradient", {"tfi", "t", prepare_cross_entropy_gradient}},
      {"gradient_scale", {"dd", "dd", prepare_gradient_scale}},
      {"adamw_update", {"rd", "rss*", prepare_adamw_update, false, unsupported_adamw_update}},
      {"sgd_update", {"rd", "rs*", prepare_sgd_update, false, unsupported_sgd_update}},
      {"quantize_blocks", {"r", "bf", prepare_quantize_blocks, false, unsupported_quantization}},
      {"dequantize_blocks", {"bf", "r", prepare_dequantize_blocks, true, unsupported_quantization}},
  };
  const auto found = kTable.find(op);
  return found == kTable.end() ? nullptr : &found->second;
}

}  // namespace strata::cuda
