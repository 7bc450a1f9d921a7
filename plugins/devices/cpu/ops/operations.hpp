#pragma once

#include "compute_kernel.hpp"

/// \file
/// One function for each op, by family: does what needs doing once and returns the work of a launch.

namespace strata::cpu {

ComputeKernel prepare_add(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_sum(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_cast(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_scale_gradient(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_fill_zero(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_accumulate(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_activation(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_activation_gradient(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_reduce_sum(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_sum_of_squares(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_linear(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_linear_bias(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_embedding(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_embedding_gradient(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_layer_norm(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_layer_norm_input_gradient(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_layer_norm_parameter_gradient(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_dropout(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_dropout_add(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_attention(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_attention_gradient(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_attention_merge(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_row_max(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_sum_exponentials(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_log_sum_exponential(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_pick(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_cross_entropy_sum(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_count_targets(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_cross_entropy_gradient(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_gradient_scale(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_adamw_update(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_sgd_update(const OpInstance& op, const Environment& environment);

ComputeKernel prepare_quantize_blocks(const OpInstance& op, const Environment& environment);
ComputeKernel prepare_dequantize_blocks(const OpInstance& op, const Environment& environment);

std::optional<std::string> unsupported_add(const OpInstance& op);
std::optional<std::string> unsupported_attention(const OpInstance& op);
std::optional<std::string> unsupported_accumulate(const OpInstance& op);
std::optional<std::string> unsupported_reduce_sum(const OpInstance& op);
std::optional<std::string> unsupported_linear(const OpInstance& op);
std::optional<std::string> unsupported_linear_bias(const OpInstance& op);
std::optional<std::string> unsupported_adamw_update(const OpInstance& op);
std::optional<std::string> unsupported_sgd_update(const OpInstance& op);
std::optional<std::string> unsupported_quantization(const OpInstance& op);

}  // namespace strata::cpu
