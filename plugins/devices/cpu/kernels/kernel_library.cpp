#include "kernels/kernel_library.hpp"

#include <initializer_list>

namespace strata::cpu {

namespace portable {
const KernelLibrary& kernel_library();
}
#if defined(STRATA_CPU_X86)
namespace avx2 {
const KernelLibrary& kernel_library();
}
namespace avx512 {
const KernelLibrary& kernel_library();
}
#endif

bool is_supported(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::portable:
      return true;
#if defined(STRATA_CPU_X86)
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::avx512:
      return is_supported(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
#endif
    default:
      return false;
  }
}

InstructionSet best_instruction_set() {
  for (const InstructionSet candidate : {InstructionSet::avx512, InstructionSet::avx2}) {
    if (is_supported(candidate)) return candidate;
  }
  return InstructionSet::portable;
}

const KernelLibrary& kernel_library(InstructionSet instruction_set) {
#if defined(STRATA_CPU_X86)
  if (instruction_set == InstructionSet::avx512) return avx512::kernel_library();
  if (instruction_set == InstructionSet::avx2) return avx2::kernel_library();
#endif
  static_cast<void>(instruction_set);
  return portable::kernel_library();
}

const char* name(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace strata::cpu
