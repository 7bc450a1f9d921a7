#pragma once

// Loads and stores of 16-bit elements. Kernels compute in f32.

#include "kernels/kernel_family.hpp"
#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

using Half = std::uint16_t __attribute__((vector_size(kLanes * 2)));

inline Word zero_extend(Half x) {
#if defined(__AVX512F__)
  return bits_of<Word>(_mm512_maskz_cvtepu16_epi32(0xFFFF, bits_of<__m256i>(x)));
#elif defined(__AVX2__)
  return bits_of<Word>(_mm256_cvtepu16_epi32(bits_of<__m128i>(x)));
#else
  return __builtin_convertvector(x, Word);
#endif
}

inline Half truncate(Word x) {
#if defined(__AVX512F__)
  return bits_of<Half>(_mm512_maskz_cvtepi32_epi16(0xFFFF, bits_of<__m512i>(x)));
#else
  return __builtin_convertvector(x, Half);
#endif
}

inline Float widen_bf16(Half x) { return bits_of<Float>(zero_extend(x) << 16); }

/// Rounds to the nearest bf16, ties to even. NaN stays NaN.
inline Half round_to_bf16(Float x) {
#if defined(__AVX512BF16__)
  return bits_of<Half>(_mm512_cvtneps_pbh(x));
#else
  const Word bits = bits_of<Word>(x);
  const Word rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Word quiet_nan = (bits >> 16) | 0x40U;
  return truncate(x == x ? rounded : quiet_nan);
#endif
}

/// Changes the exponent's bias by a multiplication, which keeps subnormal numbers exact.
inline Float widen_f16(Half x) {
  const Word bits = zero_extend(x);
  const Word sign = (bits & 0x8000U) << 16;
  const Word magnitude = bits_of<Word>(bits_of<Float>((bits & 0x7FFFU) << 13) * 0x1p112F);
  const Word special = magnitude | 0x7F800000U;  // infinity and NaN
  return bits_of<Float>(sign | ((bits & 0x7C00U) == 0x7C00U ? special : magnitude));
}

/// Rounds to the nearest binary16, ties to even. Larger magnitudes become infinity. NaN stays NaN.
inline Half round_to_f16(Float x) {
  const Word bits = bits_of<Word>(x);
  const Word sign = (bits >> 16) & 0x8000U;
  const Word magnitude = bits & 0x7FFFFFFFU;
  // Below 2^-14 a binary16 has a spacing of 2^-24, as an f32 has near 0.5. So adding 0.5 rounds to that spacing.
  const Word small = bits_of<Word>(bits_of<Float>(magnitude) + 0.5F) - 0x3F000000U;
  const Word rebased = magnitude - (112U << 23);
  const Word normal = (rebased + 0xFFFU + ((rebased >> 13) & 1U)) >> 13;
  Word result = magnitude < 0x38800000U ? small : normal;
  result = magnitude >= 0x477FF000U ? broadcast(0x7C00U) : result;
  result = magnitude > 0x7F800000U ? broadcast(0x7E00U) : result;
  return truncate(sign | result);
}

inline Float load(const BFloat16* from) { return widen_bf16(load<Half>(static_cast<const void*>(from))); }
inline Float load(const Float16* from) { return widen_f16(load<Half>(static_cast<const void*>(from))); }
inline void store(BFloat16* to, Float value) { store(static_cast<void*>(to), round_to_bf16(value)); }
inline void store(Float16* to, Float value) { store(static_cast<void*>(to), round_to_f16(value)); }

inline Half load_first_half(const void* from, std::int64_t count) {
  Half value{};
  __builtin_memcpy(&value, from, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
  return value;
}

inline void store_first_half(void* to, Half value, std::int64_t count) {
  __builtin_memcpy(to, &value, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
}

inline Float load_first(const BFloat16* from, std::int64_t count) { return widen_bf16(load_first_half(from, count)); }
inline Float load_first(const Float16* from, std::int64_t count) { return widen_f16(load_first_half(from, count)); }
inline void store_first(BFloat16* to, Float value, std::int64_t count) {
  store_first_half(to, round_to_bf16(value), count);
}
inline void store_first(Float16* to, Float value, std::int64_t count) {
  store_first_half(to, round_to_f16(value), count);
}

/// The lanes of a vector that an access uses: all, or the first ones. The other lanes of a loaded vector are 0. Loops
/// over vectors (each_vector, row_total, sum_columns) pass one of the two to their body, so that a body is written
/// once.
struct AllLanes {};
struct FirstLanes {
  std::int64_t count;
};

template <class T>
inline Float load(const T* from, AllLanes /*lanes*/) {
  return load(from);
}
template <class T>
inline Float load(const T* from, FirstLanes lanes) {
  return load_first(from, lanes.count);
}
template <class T>
inline void store(T* to, Float value, AllLanes /*lanes*/) {
  store(to, value);
}
template <class T>
inline void store(T* to, Float value, FirstLanes lanes) {
  store_first(to, value, lanes.count);
}

/// to = value; with `accumulate`, to += value
template <class T, class Lanes>
inline void store(T* to, Float value, bool accumulate, Lanes lanes) {
  store(to, accumulate ? load(to, lanes) + value : value, lanes);
}

/// The vector with another value in the lanes that are not used.
inline Float with_unused(Float value, float /*other*/, AllLanes /*lanes*/) { return value; }
inline Float with_unused(Float value, float other, FirstLanes lanes) {
  for (std::int64_t lane = lanes.count; lane < kLanes; ++lane) value[lane] = other;
  return value;
}

/// A vector of bytes.
template <class Byte>
inline Byte load_bytes(const std::int8_t* from, AllLanes /*lanes*/) {
  return load<Byte>(static_cast<const void*>(from));
}
template <class Byte>
inline Byte load_bytes(const std::int8_t* from, FirstLanes lanes) {
  Byte bytes{};
  __builtin_memcpy(&bytes, from, static_cast<std::size_t>(lanes.count));
  return bytes;
}

/// Loads one element.
inline float load_one(const float* from) { return *from; }
inline float load_one(const BFloat16* from) { return load_first(from, 1)[0]; }
inline float load_one(const Float16* from) { return load_first(from, 1)[0]; }
inline void store_one(float* to, float value) { *to = value; }
inline void store_one(BFloat16* to, float value) { store_first(to, broadcast(value), 1); }
inline void store_one(Float16* to, float value) { store_first(to, broadcast(value), 1); }

/// Calls body(x), where x is `data` as a pointer to the type of `element`.
template <class Body>
inline void with_elements(Element element, const void* data, const Body& body) {
  switch (element) {
    case Element::f32:
      return body(static_cast<const float*>(data));
    case Element::bf16:
      return body(static_cast<const BFloat16*>(data));
    case Element::f16:
      return body(static_cast<const Float16*>(data));
  }
}

template <class Body>
inline void with_elements(Element element, void* data, const Body& body) {
  switch (element) {
    case Element::f32:
      return body(static_cast<float*>(data));
    case Element::bf16:
      return body(static_cast<BFloat16*>(data));
    case Element::f16:
      return body(static_cast<Float16*>(data));
  }
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
