#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "device/runtime.hpp"
#include "kernels/elementwise.cuh"
#include "launchers/map_elements.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cuda {
namespace {

/// y (+)= x, rounded to nearest once.
PreparedKernel prepare_conversion(const OpInstance& op, bool accumulate) {
  return with_element(op.operands[0].dtype, [&]<class From>() {
    return with_element(op.results[0].dtype, [&]<class To>() -> PreparedKernel {
      return {[size = elements(op.results[0]), accumulate](const KernelArguments& arguments) {
        launch_map(arguments.stream, size, accumulate, Identity{}, out<To>(arguments, 0), in<From>(arguments, 0));
      }};
    });
  });
}

PreparedKernel prepare_cast(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return prepare_conversion(op, op.accumulate);
}

PreparedKernel prepare_accumulate(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return prepare_conversion(op, true);
}

PreparedKernel prepare_fill_zero(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return {[size = bytes(op.results[0])](const KernelArguments& arguments) {
    runtime::fill_zero(arguments.stream, arguments.results[0], size);
  }};
}

}  // namespace

void register_conversion(Registration& registration) {
  registration.add(kernel({"cast", "r", "r", prepare_cast, true}));
  registration.add(kernel({ops::kAccumulate, "s", "s", prepare_accumulate}));
  registration.add(kernel({ops::kFillZero, "", "s", prepare_fill_zero}));
}

}  // namespace strata::cuda
