#pragma once

// The vector type of the kernels. Every file of this folder is compiled once per instruction set, each time with
// another STRATA_CPU_TARGET. All code is in that namespace and in an unnamed one. No standard library header with
// inline functions is included, because a linker keeps only one copy of such a function, which may use instructions
// that the processor lacks. AVX-512 intrinsics are used in their zero-masked forms, because GCC 12 warns about the
// others.

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define STRATA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define STRATA_UNROLL _Pragma("GCC unroll 16")
#endif

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Float = float __attribute__((vector_size(kLanes * 4)));
using Int = std::int32_t __attribute__((vector_size(kLanes * 4)));
using Word = std::uint32_t __attribute__((vector_size(kLanes * 4)));
using Long = std::uint64_t __attribute__((vector_size(kLanes * 4)));

constexpr float kInfinity = __builtin_inff();

template <class Vector>
inline Vector load(const void* from) {
  Vector value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <class Vector>
inline void store(void* to, Vector value) {
  __builtin_memcpy(to, &value, sizeof value);
}

inline Float load(const float* from) { return load<Float>(static_cast<const void*>(from)); }

inline Float broadcast(float value) { return value - Float{}; }
inline Word broadcast(std::uint32_t value) { return value - Word{}; }
inline Int broadcast(std::int32_t value) { return value - Int{}; }

template <class To, class From>
inline To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}

/// Loads the first `count` elements. The remaining lanes are 0.
inline Float load_first(const float* from, std::int64_t count) {
  Float value{};
  __builtin_memcpy(&value, from, static_cast<std::size_t>(count) * sizeof(float));
  return value;
}

inline void store_first(float* to, Float value, std::int64_t count) {
  __builtin_memcpy(to, &value, static_cast<std::size_t>(count) * sizeof(float));
}

inline Float select(Int mask, Float a, Float b) { return mask ? a : b; }

/// True if all lanes of `a` equal those of `b`.
inline bool all_equal(Float a, Float b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ) == 0;
#else
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(a[lane] == b[lane])) return false;
  }
  return true;
#endif
}

/// a * b + c, with one rounding if the processor has such an instruction. The compiler must not fuse on its own
/// (-ffp-contract=off): it might do so in one copy of a loop and not in another, and then results would depend on the
/// number of threads.
inline Float multiply_add(Float a, Float b, Float c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__) && defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

inline Float multiply_add(Float a, float b, Float c) { return multiply_add(a, broadcast(b), c); }
inline Float multiply_add(Float a, Float b, float c) { return multiply_add(a, b, broadcast(c)); }
inline Float multiply_add(Float a, float b, float c) { return multiply_add(a, broadcast(b), broadcast(c)); }

/// The larger number. A NaN in `b` stays.
inline Float maximum(Float a, Float b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xFFFF, a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return _mm_max_ps(a, b);
#else
  return select(a > b, a, b);
#endif
}

inline Float square_root(Float x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xFFFF, x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  Float result;
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = __builtin_sqrtf(x[lane]);
  return result;
#endif
}

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

/// The sum of all lanes in a fixed order: one half is added to the other, repeatedly.
inline float horizontal_sum(Float value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

inline float horizontal_maximum(Float value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      const float other = lanes[lane + width];
      lanes[lane] = lanes[lane] > other ? lanes[lane] : other;
    }
  }
  return lanes[0];
}

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
