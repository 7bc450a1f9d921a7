#pragma once

#include "kernels/instruction_set.hpp"
#include "strata/kernel.hpp"

namespace strata::cpu {

/// The environment of the cpu device's kernels: number of threads and instruction set.
class CpuEnvironment final : public KernelEnvironment {
 public:
  CpuEnvironment(int threads, InstructionSet instruction_set)
      : KernelEnvironment("host", threads), instruction_set_(instruction_set) {}

  [[nodiscard]] InstructionSet instruction_set() const { return instruction_set_; }

 private:
  InstructionSet instruction_set_;
};

}  // namespace strata::cpu
