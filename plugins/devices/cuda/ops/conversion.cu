#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "device/runtime.hpp"
#include "kernels/elementwise.cuh"
#include "launchers/map_elements.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cuda {
namespace {

/// Elements in memory and their real type.
struct TypedElements {
  DType dtype = DType::f32;
  void* data = nullptr;
};
struct ConstTypedElements {
  DType dtype = DType::f32;
  const void* data = nullptr;
};

/// to = from, rounded to nearest.
void launch_convert(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to) {
  with_element(from.dtype, [&]<class From>() {
    with_element(to.dtype, [&]<class To>() {
      launch_map(stream, size, Identity{}, static_cast<To*>(to.data), static_cast<const From*>(from.data));
    });
  });
}

/// to += from, rounded once.
void launch_accumulate(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to) {
  with_element(from.dtype, [&]<class From>() {
    with_element(to.dtype, [&]<class To>() {
      launch_map_onto(stream, size, Identity{}, static_cast<To*>(to.data), static_cast<const From*>(from.data));
    });
  });
}

PreparedKernel prepare_cast(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return {[size = elements(op.results[0]), from = op.operands[0].dtype, to = op.results[0].dtype,
           launch = op.accumulate ? launch_accumulate : launch_convert](const KernelArguments& arguments) {
    launch(arguments.stream, size, {from, arguments.operands[0]}, {to, arguments.results[0]});
  }};
}

PreparedKernel prepare_accumulate(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return {[size = elements(op.results[0]), from = op.operands[0].dtype,
           to = op.results[0].dtype](const KernelArguments& arguments) {
    launch_accumulate(arguments.stream, size, {from, arguments.operands[0]}, {to, arguments.results[0]});
  }};
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
