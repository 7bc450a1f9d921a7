#pragma once

#include "kernels/instruction_set.hpp"

/// \file
/// Kernels are plain functions on row-major buffers. They compute in f32 whatever the type of their elements. Their
/// results are bitwise equal for any number of threads. They keep no state, so several ranks may call them
/// concurrently. A family is a struct of pointers to such functions. Each instruction set has its own constant of that
/// struct, because the files of vector/ are compiled once per instruction set. Matrix products are not kernels of this
/// form (matrix_product.hpp).

namespace strata::cpu {

// The instruction sets in this build, besides `portable`.
#if defined(STRATA_CPU_X86)
inline constexpr bool kHasX86Kernels = true;
#else
inline constexpr bool kHasX86Kernels = false;
#endif
#if defined(STRATA_CPU_AMX)
inline constexpr bool kHasAmxKernels = true;
#else
inline constexpr bool kHasAmxKernels = false;
#endif

}  // namespace strata::cpu

/// Use it at the end of a family's header, in namespace strata::cpu. It declares the constant NAME of type TYPE for
/// every instruction set, and the function NAME(instruction_set), which returns the constant for a supported
/// instruction set. vector/*.cpp defines the constant in namespace strata::cpu::STRATA_CPU_TARGET.
///
/// Example: STRATA_CPU_KERNEL_FAMILY(ByElement<ReduceKernels>, reduce_kernels);
///          reduce_kernels(best_instruction_set()).f32.sum_of_squares(size, x, threads);
///
/// The function has internal linkage. If it were shared between files, the linker might keep the copy that was compiled
/// for another processor.
#define STRATA_CPU_KERNEL_FAMILY(TYPE, NAME)                                 \
  namespace portable {                                                       \
  extern const TYPE NAME;                                                    \
  }                                                                          \
  namespace avx2 {                                                           \
  extern const TYPE NAME;                                                    \
  }                                                                          \
  namespace avx512 {                                                         \
  extern const TYPE NAME;                                                    \
  }                                                                          \
  namespace amx {                                                            \
  extern const TYPE NAME;                                                    \
  }                                                                          \
  [[maybe_unused]] static const TYPE& NAME(InstructionSet instruction_set) { \
    if constexpr (kHasAmxKernels) {                                          \
      if (instruction_set == InstructionSet::amx) return amx::NAME;          \
    }                                                                        \
    if constexpr (kHasX86Kernels) {                                          \
      if (instruction_set == InstructionSet::avx512) return avx512::NAME;    \
      if (instruction_set == InstructionSet::avx2) return avx2::NAME;        \
    }                                                                        \
    return portable::NAME;                                                   \
  }                                                                          \
  static_assert(true)
