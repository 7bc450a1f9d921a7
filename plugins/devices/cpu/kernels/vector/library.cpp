#include "kernels/vector/target.hpp"
#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

#if defined(__AVX512F__)
constexpr InstructionSet kInstructionSet = InstructionSet::avx512;
#elif defined(__AVX2__)
constexpr InstructionSet kInstructionSet = InstructionSet::avx2;
#else
constexpr InstructionSet kInstructionSet = InstructionSet::portable;
#endif

}  // namespace

const KernelLibrary& kernel_library() {
  static const KernelLibrary library = {
      kInstructionSet,       elementwise_kernels, cast_kernels,      reduce_kernels,
      layer_norm_kernels,    activation_kernels,  dropout_kernels,   attention_kernels,
      cross_entropy_kernels, embedding_kernels,   optimizer_kernels,
  };
  return library;
}

}  // namespace strata::cpu::STRATA_CPU_TARGET
