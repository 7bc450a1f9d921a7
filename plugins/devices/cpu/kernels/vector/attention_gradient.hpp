#pragma once

#include "kernels/attention.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {

/// See AttentionKernels. Instantiated for every type of elements.
template <class T>
std::int64_t attention_gradient_workspace_bytes(const AttentionShape& shape, int threads);
template <class T>
void attention_gradient(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* o, const float* lse,
                        const T* d_o, void* dq, void* dk, void* dv, void* workspace, int threads);

}  // namespace strata::cpu::STRATA_CPU_TARGET
