#pragma once

#include "kernels/attention.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {

/// See AttentionKernels.
std::int64_t attention_gradient_workspace_bytes(const AttentionShape& shape, int threads);
void attention_gradient(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* o,
                        const float* lse, const float* d_o, float* dq, float* dk, float* dv, void* workspace,
                        int threads);

}  // namespace strata::cpu::STRATA_CPU_TARGET
