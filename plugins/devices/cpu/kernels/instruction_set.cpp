#include <initializer_list>

#include "kernels/kernel_family.hpp"

#if defined(STRATA_CPU_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace strata::cpu {

#if defined(STRATA_CPU_AMX)
namespace {

/// True if the processor has matrix units and Linux lets this program use them. CPUID answers for the processor
/// (Intel's Software Developer's Manual, volume 2), because Clang 14's `__builtin_cpu_supports` does not know these
/// features.
bool has_matrix_units() {
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kTiles = 1U << 24 | 1U << 22;  // AMX-TILE and AMX-BF16, in EDX of part 0
  constexpr unsigned kBfloat16 = 1U << 5;           // AVX512_BF16, in EAX of part 1
  constexpr long kRequestPermission = 0x1023;       // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;                    // XFEATURE_XTILEDATA
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTiles) != kTiles) return false;
  if (__get_cpuid_count(kFeatures, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kBfloat16) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
