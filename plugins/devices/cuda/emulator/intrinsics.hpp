#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/rough_arithmetic.hpp"

/// \file
/// Intrinsic functions of one thread. Functions that a GPU approximates are exact here, except on a rough GPU.

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }

inline float rsqrtf(float value) { return 1.0F / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }
inline float __expf(float value) { return strata::cuda::emulator::approximate_exp(value); }
inline float __logf(float value) { return std::log(value); }
inline float __log2f(float value) { return std::log2(value); }
inline float __fdividef(float a, float b) { return strata::cuda::emulator::approximate_quotient(a, b); }
inline float __frcp_rn(float value) { return 1.0F / value; }
inline float __fsqrt_rn(float value) { return std::sqrt(value); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline int __float2int_rn(float value) { return static_cast<int>(std::nearbyint(value)); }
inline int __double2int_rn(double value) { return static_cast<int>(std::nearbyint(value)); }

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32U);
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}

inline void __threadfence() {}
inline void __threadfence_block() {}

using std::max;
using std::min;

/// A plain read and write is atomic here, because blocks run one after another and threads switch only at barriers.
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  *to = std::max(before, value);
  return before;
}
