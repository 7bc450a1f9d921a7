#pragma once

namespace strata::cpu {

/// The instruction sets for which kernels are built. `portable` is the distribution's baseline processor. `amx` has
/// matrix units (AMX), AVX-512 and its bf16 instructions.
enum class InstructionSet { portable, avx2, avx512, amx };

/// True if this build contains the instruction set and this processor supports it.
bool is_supported(InstructionSet instruction_set);

/// The fastest supported instruction set.
InstructionSet best_instruction_set();

const char* name(InstructionSet instruction_set);

}  // namespace strata::cpu
