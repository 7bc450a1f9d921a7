#pragma once

#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// exp(x) to about 1 ulp: exp(x) = 2^n * exp(r) with |r| <= ln(2)/2, where exp(r) is the polynomial of Cephes. Exactly
/// 0 below -87.33, and so for -infinity. Close to the largest float above 88.72. NaN stays NaN.
inline Float exponential(Float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Float largest = broadcast(88.72283F);
  const Float bounded = select(x > largest, largest, x);
  const Float shifted = multiply_add(bounded, 1.44269504F, kRound);
  const Float n = shifted - kRound;
  Float r = multiply_add(n, -0.693359375F, bounded);
  r = multiply_add(n, 2.12194440e-4F, r);
  Float p = broadcast(1.9875691500e-4F);
  p = multiply_add(p, r, 1.3981999507e-3F);
  p = multiply_add(p, r, 8.3334519073e-3F);
  p = multiply_add(p, r, 4.1665795894e-2F);
  p = multiply_add(p, r, 1.6666665459e-1F);
  p = multiply_add(p, r, 5.0000001201e-1F);
  p = multiply_add(p, r * r, r) + 1.0F;
  const Word scaled = bits_of<Word>(p) + (bits_of<Word>(shifted) << 23);
  return select(x < broadcast(-87.33654F), Float{}, bits_of<Float>(scaled));
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
