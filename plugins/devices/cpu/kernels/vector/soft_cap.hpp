#pragma once

#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {

namespace {

/// tanh(x) to about 2 ulp: near 0 the polynomial of Cephes, and 1 - 2 / (exp(2 |x|) + 1) with the sign of x elsewhere.
inline Float hyperbolic_tangent(Float x) {
  const Float size = maximum(x, -x);
  const Float square = x * x;
  Float p = broadcast(-5.70498872745e-3F);
  p = multiply_add(p, square, 2.06390887954e-2F);
  p = multiply_add(p, square, -5.37397155531e-2F);
  p = multiply_add(p, square, 1.33314422036e-1F);
  p = multiply_add(p, square, -3.33332819422e-1F);
  const Float near = multiply_add(p * square, x, x);
  const Float far = 1.0F - 2.0F / (exponential(size + size) + 1.0F);
  return select(size < broadcast(0.625F), near, select(x < Float{}, -far, far));
}

/// cap · tanh(x / cap)
inline Float soft_cap(Float x, float cap) { return hyperbolic_tangent(x / cap) * cap; }

/// The derivative of soft_cap() where it is `y`. A `y` below -cap, such as -infinity, counts as -cap.
inline Float soft_cap_slope(Float y, float cap) {
  const Float share = maximum(broadcast(-1.0F), y / cap);
  return 1.0F - share * share;
}

}  // namespace

}  // namespace strata::cpu::STRATA_CPU_TARGET
