#pragma once

#include "kernels/vector/math.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

// gelu_tanh(x) = x/2 (1 + tanh(u)) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3). The second form is accurate
// even if tanh is near -1.
constexpr float kTwoRootTwoOverPi = 1.5957691216057308F;
constexpr float kCubic = 0.044715F;

/// exp(-x), bounded so that the products below stay finite.
inline Float exponential_of_minus(Float x) { return exponential(-maximum(broadcast(-87.0F), x)); }

struct GeluTanh {
  static Float value(Float x) {
    const Float u = x * kTwoRootTwoOverPi * multiply_add(x * x, kCubic, 1.0F);
    return x / (1.0F + exponential_of_minus(u));
  }
  static Float slope(Float x) {
    const Float square = x * x;
    const Float u = x * kTwoRootTwoOverPi * multiply_add(square, kCubic, 1.0F);
    const Float e = exponential_of_minus(u);
    const Float s = 1.0F / (1.0F + e);
    return multiply_add(x * s * (e * s), kTwoRootTwoOverPi * multiply_add(square, 3.0F * kCubic, 1.0F), s);
  }
};

struct Relu {
  static Float value(Float x) { return maximum(Float{}, x); }
  static Float slope(Float x) { return select(x > Float{}, broadcast(1.0F), Float{}); }
};

struct Silu {
  static Float value(Float x) { return x / (1.0F + exponential_of_minus(x)); }
  static Float slope(Float x) {
    const Float e = exponential_of_minus(x);
    const Float s = 1.0F / (1.0F + e);
    return multiply_add(x * s, e * s, s);
  }
};

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
