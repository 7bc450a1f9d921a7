#pragma once

#include "kernels/vector/vector.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

struct WideProduct {
  Word low;
  Word high;
};

/// The 64-bit products of 32-bit lanes and one factor.
inline WideProduct multiply_wide(Word a, std::uint32_t factor) {
#if defined(__AVX512F__)
  const __m512i f = _mm512_set1_epi64(factor);
  const Long even = bits_of<Long>(_mm512_maskz_mul_epu32(0xFF, bits_of<__m512i>(a), f));
  const Long odd = bits_of<Long>(_mm512_maskz_mul_epu32(0xFF, bits_of<__m512i>(bits_of<Long>(a) >> 32), f));
#elif defined(__AVX2__)
  const __m256i f = _mm256_set1_epi64x(factor);
  const Long even = bits_of<Long>(_mm256_mul_epu32(bits_of<__m256i>(a), f));
  const Long odd = bits_of<Long>(_mm256_mul_epu32(bits_of<__m256i>(bits_of<Long>(a) >> 32), f));
#elif defined(__SSE2__)
  const __m128i f = _mm_set1_epi64x(factor);
  const Long even = bits_of<Long>(_mm_mul_epu32(bits_of<__m128i>(a), f));
  const Long odd = bits_of<Long>(_mm_mul_epu32(bits_of<__m128i>(bits_of<Long>(a) >> 32), f));
#else
  const std::uint64_t f = factor;
  const Long even = (bits_of<Long>(a) & 0xFFFFFFFFU) * f;
  const Long odd = (bits_of<Long>(a) >> 32) * f;
#endif
  const std::uint64_t upper = 0xFFFFFFFF00000000U;
  return {bits_of<Word>((even & ~upper) | (odd << 32)), bits_of<Word>((even >> 32) | (odd & upper))};
}

/// The four random words of one block, for kLanes blocks at once.
struct RandomWords {
  Word words[4];
};

/// Philox4x32-10 with the constants of Random123, for the counters (low, high, 0, 0).
inline RandomWords philox(Word low, Word high, std::uint64_t key) {
  Word c0 = low;
  Word c1 = high;
  Word c2{};
  Word c3{};
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  STRATA_UNROLL
  for (int round = 0; round < 10; ++round) {
    const WideProduct a = multiply_wide(c0, 0xD2511F53U);
    const WideProduct b = multiply_wide(c2, 0xCD9E8D57U);
    c0 = b.high ^ c1 ^ k0;
    c1 = b.low;
    c2 = a.high ^ c3 ^ k1;
    c3 = a.low;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// The factors of kept and of dropped elements. An element is kept if its word is at least `threshold`.
struct DropoutFactors {
  explicit DropoutFactors(const DropoutSettings& settings)
      : key(settings.stream_key),
        threshold(static_cast<std::uint32_t>(__builtin_floor(settings.probability * 4294967296.0))),
        kept(static_cast<float>(1.0 / (1.0 - settings.probability))) {}

  Float of(Word word) const { return select(bits_of<Int>(word >= broadcast(threshold)), broadcast(kept), Float{}); }

  std::uint64_t key;
  std::uint32_t threshold;
  float kept;
};

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
