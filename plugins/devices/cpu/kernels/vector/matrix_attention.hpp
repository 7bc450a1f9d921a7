#pragma once

// Attention of bf16 operands on the matrix units. See AttentionKernels.

#include "kernels/attention.hpp"
#include "kernels/element.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {

std::int64_t matrix_attention_workspace_bytes(const AttentionShape& shape, int threads);
void matrix_attention(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, void* o,
                      float* lse, void* workspace, int threads);

std::int64_t matrix_attention_gradient_workspace_bytes(const AttentionShape& shape, int threads);
void matrix_attention_gradient(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v,
                               const BFloat16* o, const float* lse, const BFloat16* d_o, void* dq, void* dk, void* dv,
                               void* workspace, int threads);

}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
