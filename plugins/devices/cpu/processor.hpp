#pragma once

#include <string>

#include "kernels/kernel_library.hpp"

namespace strata::cpu {

/// "AMD EPYC 7763 64-Core Processor", or the architecture where the system doesn't say.
std::string processor_name();

/// Cores that this process may use.
int core_count();

/// "AVX-512, AMX for bf16": what kernels and matrix products use.
std::string unit_names(InstructionSet instruction_set);

/// \throws ConfigurationError if the processor lacks it.
InstructionSet instruction_set_named(const std::string& word);

}  // namespace strata::cpu
