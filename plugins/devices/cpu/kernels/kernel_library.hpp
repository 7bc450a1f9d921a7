#pragma once

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_merge.hpp"
#include "kernels/conversion.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/dropout.hpp"
#include "kernels/element.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/quantization.hpp"
#include "kernels/reduce.hpp"

namespace strata::cpu {

/// The units that the kernels are built for: `portable` for the distribution's baseline processor, `amx` for the matrix
/// units beside AVX-512 and its bf16 instructions.
enum class InstructionSet { portable, avx2, avx512, amx };

/// All kernels, built for one instruction set.
///
/// Every kernel is a plain function on row-major buffers, computes in f32 whatever the type of their elements, takes
/// the number of threads to use, and gives bitwise the same result for any number of them. Kernels keep no state, so
/// several ranks may call them at once. Matrix products are elsewhere (matrix_product.hpp).
struct KernelLibrary {
  InstructionSet instruction_set;
  ByElement<ElementwiseKernels> elementwise;
  ConversionKernels conversion;
  ByElement<ReduceKernels> reduce;
  ByElement<LayerNormKernels> layer_norm;
  ByElement<ActivationKernels> activation;
  ByElement<DropoutKernels> dropout;
  ByElement<AttentionKernels> attention;
  AttentionMergeKernels attention_merge;
  ByElement<CrossEntropyKernels> cross_entropy;
  RowLossKernels row_losses;
  ByElement<EmbeddingKernels> embedding;
  OptimizerKernels optimizer;
  ByElement<QuantizationKernels> quantization;
};

/// Whether this build has the instruction set and this processor runs it.
bool is_supported(InstructionSet instruction_set);

/// The fastest supported instruction set.
InstructionSet best_instruction_set();

/// The kernels for an instruction set that is_supported().
const KernelLibrary& kernel_library(InstructionSet instruction_set);

const char* name(InstructionSet instruction_set);

}  // namespace strata::cpu
