#include "strata/gpu_kernel.hpp"

namespace strata {

GpuEnvironment::GpuEnvironment(const GpuDescription& gpu, const std::string& runtime)
    : KernelEnvironment(runtime, 0), gpu_(gpu) {}
GpuEnvironment::~GpuEnvironment() = default;

}  // namespace strata
