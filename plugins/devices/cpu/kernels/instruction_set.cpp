#include <initializer_list>

#include "kernels/kernel_family.hpp"

#if defined(STRATA_CPU_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace strata::cpu {

#if defined(STRATA_CPU_AMX)
namespace {

/// Asks Linux for permission to use the matrix units. \return true if it is granted.
bool has_matrix_units() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         __builtin_cpu_supports("avx512bf16") && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace
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
#if defined(STRATA_CPU_AMX)
    case InstructionSet::amx:
      return is_supported(InstructionSet::avx512) && has_matrix_units();
#endif
    default:
      return false;
  }
}

InstructionSet best_instruction_set() {
  for (const InstructionSet candidate : {InstructionSet::amx, InstructionSet::avx512, InstructionSet::avx2}) {
    if (is_supported(candidate)) return candidate;
  }
  return InstructionSet::portable;
}

const char* name(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::amx:
      return "amx";
  }
  return "unknown";
}

}  // namespace strata::cpu
