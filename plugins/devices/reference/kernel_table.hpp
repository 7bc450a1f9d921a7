#pragma once

#include "kernel.hpp"

namespace strata::reference {

/// The kernel for an op, or null.
const KernelEntry* find_kernel(const std::string& op);

// One function for each op, by family (ops/*.cpp); each does what needs doing once and returns the work of a launch.

LaunchFunction prepare_add(const OpInstance& op);
LaunchFunction prepare_sum(const OpInstance& op);
LaunchFunction prepare_cast(const OpInstance& op);
LaunchFunction prepare_scale_gradient(const OpInstance& op);
LaunchFunction prepare_fill_zero(const OpInstance& op);
LaunchFunction prepare_accumulate(const OpInstance& op);
LaunchFunction prepare_activation(const OpInstance& op);
LaunchFunction prepare_activation_gradient(const OpInstance& op);

LaunchFunction prepare_reduce_sum(const OpInstance& op);
LaunchFunction prepare_sum_of_squares(const OpInstance& op);

LaunchFunction prepare_linear(const OpInstance& op);
LaunchFunction prepare_linear_bias(const OpInstance& op);
LaunchFunction prepare_linear_bias_activation(const OpInstance& op);
LaunchFunction prepare_linear_activation_gradient(const OpInstance& op);

LaunchFunction prepare_embedding(const OpInstance& op);
LaunchFunction prepare_embedding_gradient(const OpInstance& op);

LaunchFunction prepare_layer_norm(const OpInstance& op);
LaunchFunction prepare_layer_norm_input_gradient(const OpInstance& op);
LaunchFunction prepare_layer_norm_parameter_gradient(const OpInstance& op);

LaunchFunction prepare_dropout(const OpInstance& op);

LaunchFunction prepare_attention(const OpInstance& op);
LaunchFunction prepare_attention_gradient(const OpInstance& op);
LaunchFunction prepare_attention_merge(const OpInstance& op);
std::int64_t attention_workspace(const OpInstance& op);
std::int64_t attention_gradient_workspace(const OpInstance& op);

LaunchFunction prepare_row_max(const OpInstance& op);
LaunchFunction prepare_sum_exponentials(const OpInstance& op);
LaunchFunction prepare_log_sum_exponential(const OpInstance& op);
LaunchFunction prepare_pick(const OpInstance& op);
LaunchFunction prepare_cross_entropy_sum(const OpInstance& op);
LaunchFunction prepare_count_targets(const OpInstance& op);
LaunchFunction prepare_cross_entropy_gradient(const OpInstance& op);

LaunchFunction prepare_gradient_scale(const OpInstance& op);
LaunchFunction prepare_adamw_update(const OpInstance& op);
LaunchFunction prepare_sgd_update(const OpInstance& op);

LaunchFunction prepare_quantize_blocks(const OpInstance& op);
LaunchFunction prepare_dequantize_blocks(const OpInstance& op);

}  // namespace strata::reference
