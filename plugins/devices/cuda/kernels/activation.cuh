#pragma once

#include "language/language.hpp"

/// \file
/// Activation functions and their derivatives. In f32 they use the hardware's approximations, whose errors are a few
/// units in the last place.

namespace strata::cuda {

/// a / b. In f32 the denominator must be below 2^126.
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }

/// exp(-x), limited so that it stays below 2^126.
template <class A>
__device__ __forceinline__ A exponential_of_minus(A x) {
  constexpr A kBound = -87;
  constexpr A kLog2E = 1.4426950408889634;
  return fast_exp2((x < kBound ? -kBound : -x) * kLog2E);
}

/// GELU x/2 (1 + tanh(u)) with u = √(2/π) (x + 0.044715 x³), computed as x / (1 + exp(-2u)). This form loses no digits
/// if tanh is near -1.
struct GeluTanh {
  static constexpr const char* kKind = "gelu_tanh";
  static constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
  static constexpr double kCubic = 0.044715;

  template <class A>
  static __device__ __forceinline__ A value(A x) {
    return quotient(x, 1 + exponential_of_minus(twice_u(x)));
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    const A e = exponential_of_minus(twice_u(x));
    const A s = quotient(A{1}, 1 + e);
    const A slope = static_cast<A>(kTwoRootTwoOverPi) * (1 + static_cast<A>(3 * kCubic) * x * x);
    return s + x * s * (e * s) * slope;
  }

 private:
  template <class A>
  static __device__ __forceinline__ A twice_u(A x) {
    return static_cast<A>(kTwoRootTwoOverPi) * x * (1 + static_cast<A>(kCubic) * x * x);
  }
};

/// x times the normal distribution function.
struct Gelu {
  static constexpr const char* kKind = "gelu";

  template <class A>
  static __device__ __forceinline__ A value(A x) {
    return x * distribution(x);
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    constexpr A kHalfLog2E = 0.7213475204444817;
    constexpr A kPeak = 0.3989422804014327;
    return distribution(x) + x * kPeak * fast_exp2(-kHalfLog2E * x * x);
  }

 private:
  static __device__ __forceinline__ float distribution(float x) { return 0.5F * erfcf(-0.7071067811865476F * x); }
  static __device__ __forceinline__ double distribution(double x) { return 0.5 * erfc(-0.7071067811865476 * x); }
};

struct Tanh {
  static constexpr const char* kKind = "tanh";

  template <class A>
  static __device__ __forceinline__ A value(A x) {
    const A e = exponential_of_minus(2 * x);
    return quotient(1 - e, 1 + e);
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    const A y = value(x);
    return 1 - y * y;
  }
};

struct Relu {
  static constexpr const char* kKind = "relu";

  /// NaN stays NaN, because the comparison is false for it.
  template <class A>
  static __device__ __forceinline__ A value(A x) {
    return x < 0 ? A{0} : x;
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    return x > 0 ? A{1} : A{0};
  }
};

struct Sigmoid {
  static constexpr const char* kKind = "sigmoid";

  template <class A>
  static __device__ __forceinline__ A value(A x) {
    return quotient(A{1}, 1 + exponential_of_minus(x));
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    const A e = exponential_of_minus(x);
    const A s = quotient(A{1}, 1 + e);
    return s * (e * s);
  }
};

struct Silu {
  static constexpr const char* kKind = "silu";

  template <class A>
  static __device__ __forceinline__ A value(A x) {
    return quotient(x, 1 + exponential_of_minus(x));
  }
  template <class A>
  static __device__ __forceinline__ A derivative(A x) {
    const A e = exponential_of_minus(x);
    const A s = quotient(A{1}, 1 + e);
    return s + x * s * (e * s);
  }
};

template <class... Kinds>
struct ActivationList {};

/// Every activation function that has kernels, each with its name in strata::activation_functions(). To add one, write
/// a struct like those above, and name it here.
using Activations = ActivationList<Gelu, GeluTanh, Relu, Sigmoid, Silu, Tanh>;

template <class Kind>
struct Activation {
  template <class A>
  __device__ __forceinline__ A operator()(A x) const {
    return Kind::value(x);
  }
};

template <class Kind>
struct ActivationGradient {
  template <class A>
  __device__ __forceinline__ A operator()(A dy, A x) const {
    return dy * Kind::derivative(x);
  }
};

}  // namespace strata::cuda
