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

void register_soft_cap(Registration& registration) {
  add(registration, {"soft_cap", "t", "t", true}, []<class T>(const OpInstance& op) -> PreparedKernel {
    return {map_operands<T, T>(op, SoftCap{op.attributes.number("cap")})};
  });
  add(registration, {"soft_cap_gradient", "tt", "t", true}, []<class T>(const OpInstance& op) -> PreparedKernel {
    return {map_operands<T, T, T>(op, SoftCapGradient{op.attributes.number("cap")})};
  });
}

}  // namespace strata::cuda
