#pragma once

#include "kernels/kernel_library.hpp"

// What each file of this folder hands to library.cpp: one constant per family, for each instruction set.
namespace strata::cpu::STRATA_CPU_TARGET {

extern const ElementwiseKernels elementwise_kernels;
extern const CastKernels cast_kernels;
extern const ReduceKernels reduce_kernels;
extern const LayerNormKernels layer_norm_kernels;
extern const ActivationKernels activation_kernels;
extern const DropoutKernels dropout_kernels;
extern const AttentionKernels attention_kernels;
extern const CrossEntropyKernels cross_entropy_kernels;
extern const EmbeddingKernels embedding_kernels;
extern const OptimizerKernels optimizer_kernels;

const KernelLibrary& kernel_library();

}  // namespace strata::cpu::STRATA_CPU_TARGET
