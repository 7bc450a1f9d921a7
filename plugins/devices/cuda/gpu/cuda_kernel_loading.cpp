#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <vector>

#include "device/runtime.hpp"

/// \file
/// CUDA loads a kernel at its first launch. Loading waits for running kernels. Those may be NCCL's, which wait for
/// other ranks, so loading could deadlock. The device therefore loads all of its kernels before any kernel runs.

namespace strata::cuda::runtime {
namespace {

/// The driver's functions to enumerate the kernels of a module. Drivers before CUDA 12.4 lack some of them.
class ModuleFunctions {
 public:
  ModuleFunctions() {
    // The CUDA runtime has loaded the driver already.
    void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == nullptr) return;
    find(driver, "cuFuncGetModule", get_module_);
    find(driver, "cuModuleGetFunctionCount", count_);
    find(driver, "cuModuleEnumerateFunctions", enumerate_);
    find(driver, "cuFuncLoad", load_);
  }

  [[nodiscard]] bool are_there() const {
    return get_module_ != nullptr && count_ != nullptr && enumerate_ != nullptr && load_ != nullptr;
  }

  /// Loads the kernels of the module that contains `kernel`. Ignores errors.
  void load_module_of(CUfunction kernel) const {
    CUmodule module = nullptr;
    unsigned count = 0;
    if (get_module_(&module, kernel) != CUDA_SUCCESS || count_(&count, module) != CUDA_SUCCESS) return;
    std::vector<CUfunction> kernels(count);
    if (enumerate_(kernels.data(), count, module) != CUDA_SUCCESS) return;
    for (const CUfunction each : kernels) static_cast<void>(load_(each));
  }

 private:
  template <class Function>
  static void find(void* driver, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(driver, name));
  }

  decltype(&cuFuncGetModule) get_module_ = nullptr;
  decltype(&cuModuleGetFunctionCount) count_ = nullptr;
  decltype(&cuModuleEnumerateFunctions) enumerate_ = nullptr;
  decltype(&cuFuncLoad) load_ = nullptr;
};

}  // namespace

void load_kernels(std::span<const void* const> of_each_source) {
  // Loading ahead is only a precaution. A kernel that cannot be loaded reports an error at its launch.
  const ModuleFunctions functions;
  if (!functions.are_there()) return;
  for (const void* symbol : of_each_source) {
    cudaFunction_t kernel = nullptr;
    if (cudaGetFuncBySymbol(&kernel, symbol) == cudaSuccess) functions.load_module_of(kernel);
  }
  static_cast<void>(cudaGetLastError());
}

}  // namespace strata::cuda::runtime
