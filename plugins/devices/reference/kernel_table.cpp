#include "kernel_table.hpp"

#include <map>

namespace strata::reference {

const KernelEntry* find_kernel(const std::string& op) {
  static const std::map<std::string, KernelEntry> kTable = {
      {"add", {"rr", "r", prepare_add}},
      {"sum", {"r*", "r", prepare_sum}},
      {"cast", {"r", "r", prepare_cast}},
      {"scale_gradient", {"r", "r", prepare_scale_gradient}},
      {"fill_zero", {"", "r", prepare_fill_zero, false}},
      {"accumulate", {"r", "r", prepare_accumulate, false}},
      {"activation", {"r", "r", prepare_activation}},
      {"activation_gradient", {"rr", "r", prepare_activation_gradient}},
      {"reduce_sum", {"r", "r", prepare_reduce_sum}},
      {"sum_of_squares", {"r", "d", prepare_sum_of_squares}},
      {"linear", {"rr", "r", prepare_linear}},
      {"linear_bias", {"rrr", "r", prepare_linear_bias}},
      {"linear_bias_activation", {"rrr", "r*", prepare_linear_bias_activation, false}},
      {"linear_activation_gradient", {"rrr", "r", prepare_linear_activation_gradient}},
      {"embedding", {"ri", "r", prepare_embedding}},
      {"embedding_gradient", {"ri", "r", prepare_embedding_gradient}},
      {"layer_norm", {"rrr", "rrr", prepare_layer_norm, false}},
      {"layer_norm_input_gradient", {"rrrrr", "r", prepare_layer_norm_input_gradient}},
      {"layer_norm_parameter_gradient", {"rrrr", "rr", prepare_layer_norm_parameter_gradient}},
      {"dropout", {"r", "r", prepare_dropout}},
      {"dropout_add", {"rr", "r", prepare_dropout}},
      {"attention", {"rrr", "rr", prepare_attention, false, attention_workspace}},
      {"attention_gradient", {"rrrrrr", "rrr", prepare_attention_gradient, true, attention_gradient_workspace}},
      {"attention_merge", {"rrrr", "rr", prepare_attention_merge, false}},
      {"row_max", {"r", "r", prepare_row_max, false}},
      {"sum_exponentials", {"rr", "r", prepare_sum_exponentials}},
      {"log_sum_exponential", {"rr", "r", prepare_log_sum_exponential, false}},
      {"pick", {"ri", "r", prepare_pick}},
      {"cross_entropy_sum", {"rri", "d", prepare_cross_entropy_sum}},
      {"count_targets", {"i", "d", prepare_count_targets}},
      {"cross_entropy_gradient", {"rri", "r", prepare_cross_entropy_gradient}},
      {"gradient_scale", {"dd", "dd", prepare_gradient_scale, false}},
      {"adamw_update", {"rd", "rrr*", prepare_adamw_update, false}},
      {"sgd_update", {"rd", "rr*", prepare_sgd_update, false}},
      {"quantize_blocks", {"r", "br", prepare_quantize_blocks, false}},
      {"dequantize_blocks", {"br", "r", prepare_dequantize_blocks}},
  };
  const auto found = kTable.find(op);
  return found == kTable.end() ? nullptr : &found->second;
}

}  // namespace strata::reference
