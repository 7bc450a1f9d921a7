#pragma once

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/cast.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/reduce.hpp"

namespace strata::cpu {

/// The vector units that the kernels are built for. `portable` is the distribution's baseline processor.
enum class InstructionSet { portable, avx2, avx512 };

/// All kernels, built for one instruction set.
///
/// Every kernel is a plain function on row-major f32 buffers, takes the number of threads to use, and gives bitwise
/// the same result for any number of them. Kernels keep no state, so several ranks may call them at once.
/// Matrix products are elsewhere (matrix_product.hpp).
struct KernelLibrary {
  InstructionSet instruction_set;
  ElementwiseKernels elementwise;
  CastKernels cast;
  ReduceKernels reduce;
  LayerNormKernels layer_norm;
  ActivationKernels activation;
  DropoutKernels dropout;
  AttentionKernels attention;
  CrossEntropyKernels cross_entropy;
  EmbeddingKernels embedding;
  OptimizerKernels optimizer;
};

/// Whether this build has the instruction set and this processor runs it.
bool is_supported(InstructionSet instruction_set);

/// The fastest supported instruction set.
InstructionSet best_instruction_set();

/// The kernels for an instruction set that is_supported().
const KernelLibrary& kernel_library(InstructionSet instruction_set);

const char* name(InstructionSet instruction_set);

}  // namespace strata::cpu
