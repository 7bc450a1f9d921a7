#include "device/cuda_kernel.hpp"
#include "kernels/soft_cap.cuh"
#include "launchers/map_elements.hpp"

namespace strata::cuda {

struct SoftCap {
  double cap;

  template <class V>
  __device__ __forceinline__ V operator()(V x) const {
    return soft_cap(x, static_cast<V>(cap));
  }
};

struct SoftCapGradient {
  double cap;

  template <class V>
  __device__ __forceinline__ V operator()(V dy, V y) const {
    return dy * soft_cap_slope(y, static_cast<V>(cap));
  }
};

namespace {

PreparedKernel prepare_soft_cap(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {map_operands<T, T>(op, SoftCap{op.attributes.number("cap")})};
  });
}

PreparedKernel prepare_soft_cap_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {map_operands<T, T, T>(op, SoftCapGradient{op.attributes.number("cap")})};
  });
}

}  // namespace

void register_soft_cap(Registration& registration) {
  registration.add(kernel({"soft_cap", "t", "t", prepare_soft_cap, true}));
  registration.add(kernel({"soft_cap_gradient", "tt", "t", prepare_soft_cap_gradient, true}));
}

}  // namespace strata::cuda
