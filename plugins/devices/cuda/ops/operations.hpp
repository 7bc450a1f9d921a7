#pragma once

#include "device/prepared_op.hpp"

/// \file
/// One function for each op, by family: does what needs doing once and returns the work of a launch.

namespace strata::cuda {

PreparedOp prepare_add(const OpInstance& op, const Environment& environment);
PreparedOp prepare_sum(const OpInstance& op, const Environment& environment);
PreparedOp prepare_cast(const OpInstance& op, const Environment& environment);
PreparedOp prepare_scale_gradient(const OpInstance& op, const Environment& environment);
PreparedOp prepare_fill_zero(const OpInstance& op, const Environment& environment);
PreparedOp prepare_accumulate(const OpInstance& op, const Environment& environment);
PreparedOp prepare_activation(const OpInstance& op, const Environment& environment);
PreparedOp prepare_activation_gradient(const OpInstance& op, const Environment& environment);

PreparedOp prepare_reduce_sum(const OpInstance& op, const Environment& environment);
PreparedOp prepare_sum_of_squares(const OpInstance& op, const Environment& environment);

PreparedOp prepare_linear(const OpInstance& op, const Environment& environment);
PreparedOp prepare_linear_bias(const OpInstance& op, const Environment& environment);
PreparedOp prepare_linear_bias_activation(const OpInstance& op, const Environment& environment);
PreparedOp prepare_linear_activation_gradient(const OpInstance& op, const Environment& environment);

PreparedOp prepare_embedding(const OpInstance& op, const Environment& environment);
PreparedOp prepare_embedding_gradient(const OpInstance& op, const Environment& environment);

PreparedOp prepare_layer_norm(const OpInstance& op, const Environment& environment);
PreparedOp prepare_layer_norm_input_gradient(const OpInstance& op, const Environment& environment);
PreparedOp prepare_layer_norm_parameter_gradient(const OpInstance& op, const Environment& environment);

PreparedOp prepare_dropout(const OpInstance& op, const Environment& environment);
PreparedOp prepare_dropout_add(const OpInstance& op, const Environment& environment);

PreparedOp prepare_attention(const OpInstance& op, const Environment& environment);
PreparedOp prepare_attention_gradient(const OpInstance& op, const Environment& environment);
PreparedOp prepare_attention_merge(const OpInstance& op, const Environment& environment);

PreparedOp prepare_row_max(const OpInstance& op, const Environment& environment);
PreparedOp prepare_sum_exponentials(const OpInstance& op, const Environment& environment);
PreparedOp prepare_log_sum_exponential(const OpInstance& op, const Environment& environment);
PreparedOp prepare_pick(const OpInstance& op, const Environment& environment);
PreparedOp prepare_cross_entropy_sum(const OpInstance& op, const Environment& environment);
PreparedOp prepare_count_targets(const OpInstance& op, const Environment& environment);
PreparedOp prepare_cross_entropy_gradient(const OpInstance& op, const Environment& environment);

PreparedOp prepare_gradient_scale(const OpInstance& op, const Environment& environment);
PreparedOp prepare_adamw_update(const OpInstance& op, const Environment& environment);
PreparedOp prepare_sgd_update(const OpInstance& op, const Environment& environment);

PreparedOp prepare_quantize_blocks(const OpInstance& op, const Environment& environment);
PreparedOp prepare_dequantize_blocks(const OpInstance& op, const Environment& environment);

std::optional<std::string> unsupported_add(const OpInstance& op);
std::optional<std::string> unsupported_attention(const OpInstance& op);
std::optional<std::string> unsupported_sum(const OpInstance& op);
std::optional<std::string> unsupported_dropout(const OpInstance& op);
std::optional<std::string> unsupported_reduce_sum(const OpInstance& op);
std::optional<std::string> unsupported_linear(const OpInstance& op);
std::optional<std::string> unsupported_linear_bias(const OpInstance& op);
std::optional<std::string> unsupported_linear_bias_activation(const OpInstance& op);
std::optional<std::string> unsupported_linear_activation_gradient(const OpInstance& op);
std::optional<std::string> unsupported_adamw_update(const OpInstance& op);
std::optional<std::string> unsupported_sgd_update(const OpInstance& op);
std::optional<std::string> unsupported_quantization(const OpInstance& op);

}  // namespace strata::cuda
