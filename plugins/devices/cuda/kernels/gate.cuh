#pragma once

#include "kernels/activation.cuh"

namespace strata::cuda {

struct Product {
  template <class A>
  __device__ __forceinline__ A operator()(A x, A y) const {
    return x * y;
  }
};

template <class Kind>
struct Gate {
  template <class A>
  __device__ __forceinline__ A operator()(A gate, A up) const {
    return Kind::value(gate) * up;
  }
};

template <class Kind>
struct GateSlope {
  template <class A>
  __device__ __forceinline__ A operator()(A dy, A gate, A up) const {
    return dy * up * Kind::derivative(gate);
  }
};

template <class Kind>
struct GateValue {
  template <class A>
  __device__ __forceinline__ A operator()(A dy, A gate) const {
    return dy * Kind::value(gate);
  }
};

}  // namespace strata::cuda
