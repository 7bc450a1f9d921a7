#pragma once

#include <utility>

#include "kernels/instruction_set.hpp"
#include "shared/device_kernel.hpp"
#include "strata/kernel.hpp"
#include "strata/registration.hpp"

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

/// The definition of a kernel of this device. Real types are f32, bf16 and f16. The index type is i32.
inline KernelDefinition kernel(devices::DeviceKernel<CpuEnvironment> kernel) {
  return devices::definition_of(std::move(kernel), "the cpu device");
}

}  // namespace strata::cpu
