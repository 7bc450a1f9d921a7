#pragma once

/// \file
/// Kernels are plain functions on row-major buffers. They compute in f32 whatever the type of their elements. Their
/// results are bitwise equal for any number of threads. They keep no state, so several ranks may call them
/// concurrently. A family is a struct of pointers to such functions. Each instruction set has its own constant of that
/// struct, because the files of vector/ are compiled once per instruction set. Matrix products are not kernels of this
/// form (matrix_product.hpp).

#include <cstdint>

namespace strata::cpu {

/// The instruction sets for which kernels are built. `portable` is the distribution's baseline processor. `amx` has
/// matrix units (AMX), AVX-512 and its bf16 instructions.
enum class InstructionSet { portable, avx2, avx512, amx };

/// True if this build contains the instruction set and this processor supports it.
bool is_supported(InstructionSet instruction_set);

/// The fastest supported instruction set.
InstructionSet best_instruction_set();

const char* name(InstructionSet instruction_set);

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

/// The bits of a bf16 number, which are the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// The bits of an IEEE binary16 number.
struct Float16 {
  std::uint16_t bits;
};

/// The types of elements in memory. All kernels compute in f32.
enum class Element { f32, bf16, f16 };

/// A family of kernels, once for each type of elements.
template <template <class> class Kernels>
struct ByElement {
  Kernels<float> f32;
  Kernels<BFloat16> bf16;
  Kernels<Float16> f16;

  template <class T>
  const Kernels<T>& of() const {
    return get(static_cast<const T*>(nullptr));
  }

 private:
  const Kernels<float>& get(const float*) const { return f32; }
  const Kernels<BFloat16>& get(const BFloat16*) const { return bf16; }
  const Kernels<Float16>& get(const Float16*) const { return f16; }
};

/// A run of indices that is contiguous in the shard and in the global dim.
struct IndexSegment {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;
};

/// Maps local to global indices of one dim, by segments in ascending local order. Without segments the dim is whole.
struct IndexMap {
  const IndexSegment* segments = nullptr;
  std::int64_t count = 0;
};

/// One dim of a tensor that may be sharded.
struct IndexedDim {
  std::int64_t local_size = 0;
  std::int64_t global_size = 0;
  IndexMap map;
};

}  // namespace strata::cpu

/// Use it in a header behind the struct of a family, in namespace strata::cpu. It declares the constant NAME of type
/// TYPE for every instruction set, and the function NAME(instruction_set), which returns the constant for a supported
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
