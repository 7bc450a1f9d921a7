#include "kernels/vector/target.hpp"
#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

#if defined(__AMX_BF16__)
constexpr InstructionSet kInstructionSet = InstructionSet::amx;
#elif defined(__AVX512F__)
constexpr InstructionSet kInstructionSet = InstructionSet::avx512;
#elif defined(__AVX2__)
constexpr InstructionSet kInstructionSet = InstructionSet::avx2;
#else
constexpr InstructionSet kInstructionSet = InstructionSet::portable;
#endif

}  // namespace

const KernelLibrary& kernel_library() {
  static const KernelLibrary library = {
      kInstructionSet,    elementwise_kernels, conversion_kernels, reduce_kernels,          layer_norm_kernels,
      activation_kernels, dropout_kernels,     attention_kernels,  attention_merge_kernels, cross_entropy_kernels,
      row_loss_kernels,   embedding_kernels,   optimizer_kernels,  quantization_kernels,
  };
  return library;
}

}  // namespace strata::cpu::STRATA_CPU_TARGET
