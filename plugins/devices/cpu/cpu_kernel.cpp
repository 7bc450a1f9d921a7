#include "cpu_kernel.hpp"

#include <utility>

namespace strata::cpu {

KernelDefinition kernel(devices::DeviceKernel<CpuEnvironment> kernel) {
  return devices::definition_of(std::move(kernel), "the cpu device");
}

}  // namespace strata::cpu
