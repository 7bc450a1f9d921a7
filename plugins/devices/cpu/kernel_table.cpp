#include <map>

#include "ops/operations.hpp"

namespace strata::cpu {

const KernelEntry* find_kernel(const std::string& op) {
  static const std::map<std::string, KernelEntry> kTable = {
      {"add", {"ff", "f", prepare_add, false, unsupported_add}},
      {"sum", {"f*", "f", prepare_sum, true}},
      {"cast", {"b", "b", prepare_cast}},
      {"fill_zero", {"", "s", prepare_fill_zero}},
      {"accumulate", {"s", "s", prepare_accumulate}},
      {"activation", {"f", "f", prepare_activation}},
      {"activation_gradient", {"ff", "f", prepare_activation_gradient, true}},
      {"reduce_sum", {"f", "f", prepare_reduce_sum, true, unsupported_reduce_sum}},
      {"sum_of_squares", {"f", "d", prepare_sum_of_squares, true}},
      {"linear", {"bb", "b", prepare_linear, true, unsupported_linear}},
      {"linear_bias", {"bbf", "f", prepare_linear_bias, true, unsupported_linear_bias}},
      {"embedding", {"fi", "f", prepare_embedding}},
      {"embedding_gradient", {"fi", "f", prepare_embedding_gradient, true}},
      {"layer_norm", {"fff", "fff", prepare_layer_norm}},
      {"layer_norm_input_gradient", {"fffff", "f", prepare_layer_norm_input_gradient, true}},
      {"layer_norm_parameter_gradient", {"ffff", "ff", prepare_layer_norm_parameter_gradient, true}},
      {"dropout", {"f", "f", prepare_dropout, true}},
      {"dropout_add", {"ff", "f", prepare_dropout_add}},
      {"attention", {"fff", "ff", prepare_attention}},
      {"attention_gradient", {"ffffff", "fff", prepare_attention_gradient}},
      {"row_max", {"f", "f", prepare_row_max}},
      {"sum_exponentials", {"ff", "f", prepare_sum_exponentials}},
      {"log_sum_exponential", {"ff", "f", prepare_log_sum_exponential}},
      {"pick", {"fi", "f", prepare_pick}},
      {"cross_entropy_sum", {"ffi", "d", prepare_cross_entropy_sum, true}},
      {"count_targets", {"i", "d", prepare_count_targets, true}},
      {"cross_entropy_gradient", {"ffi", "f", prepare_cross_entropy_gradient}},
      {"gradient_scale", {"dd", "dd", prepare_gradient_scale}},
      {"adamw_update", {"fd", "fff", prepare_adamw_update}},
      {"sgd_update", {"fd", "ff", prepare_sgd_update}},
  };
  const auto found = kTable.find(op);
  return found == kTable.end() ? nullptr : &found->second;
}

}  // namespace strata::cpu
