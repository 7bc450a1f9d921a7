#pragma once

#include <string>

#include "kernels/instruction_set.hpp"

namespace strata::cpu {

/// The processor's name, such as "AMD EPYC 7763 64-Core Processor", or the architecture if the system gives no name.
std::string processor_name();

/// The instruction sets that kernels and matrix products use, such as "AVX-512, AMX for bf16".
std::string unit_names(InstructionSet instruction_set);

/// The instruction set named `word`. \throws ConfigurationError if the processor lacks it.
InstructionSet instruction_set_named(const std::string& word);

}  // namespace strata::cpu
