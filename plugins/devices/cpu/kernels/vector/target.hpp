#pragma once

#include "kernels/kernel_library.hpp"

// What each file of this folder hands to library.cpp: one constant per family, for each instruction set.
namespace strata::cpu::STRATA_CPU_TARGET {

extern const ByElement<ElementwiseKernels> elementwise_kernels;
extern const ConversionKernels conversion_kernels;
extern const ByElement<ReduceKernels> reduce_kernels;
extern const ByElement<LayerNormKernels> layer_norm_kernels;
extern const ByElement<ActivationKernels> activation_kernels;
extern const ByElement<DropoutKernels> dropout_kernels;
extern const ByElement<AttentionKernels> attention_kernels;
extern const AttentionMergeKernels attention_merge_kernels;
extern const ByElement<CrossEntropyKernels> cross_entropy_kernels;
extern const RowLossKernels row_loss_kernels;
extern const ByElement<EmbeddingKernels> embedding_kernels;
extern const OptimizerKernels optimizer_kernels;
extern const ByElement<QuantizationKernels> quantization_kernels;

const KernelLibrary& kernel_library();

}  // namespace strata::cpu::STRATA_CPU_TARGET
