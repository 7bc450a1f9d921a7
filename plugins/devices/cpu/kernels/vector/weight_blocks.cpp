#include "kernels/quantization.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

inline std::int64_t bytes_of(const CodedWeight& weight, std::int64_t numbers) {
  return weight.numbers != nullptr ? divide_up(numbers, 2) : numbers;
}

using Byte = std::uint8_t __attribute__((vector_size(kLanes)));

inline Int widen(Byte bytes) {
#if defined(__AVX512F__)
  return bits_of<Int>(_mm512_maskz_cvtepu8_epi32(0xFFFF, bits_of<__m128i>(bytes)));
#elif defined(__AVX2__)
  return bits_of<Int>(_mm256_cvtepu8_epi32(_mm_loadu_si64(&bytes)));
#else
  return __builtin_convertvector(bytes, Int);
#endif
}

/// The table's numbers at `indices`, which are in [0, 16).
inline Float look_up(const float* table, Int indices) {
#if defined(__AVX512F__)
  return _mm512_maskz_permutexvar_ps(0xFFFF, bits_of<__m512i>(indices), load(table));
#elif defined(__AVX2__)
  const auto at = bits_of<__m256i>(indices);
  const __m256 lower = _mm256_permutevar8x32_ps(load(table), at);
  const __m256 upper = _mm256_permutevar8x32_ps(load(table + kLanes), at);
  return indices > 7 ? upper : lower;
#else
  Float numbers;
  for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = table[indices[lane]];
  return numbers;
#endif
}

/// The numbers in [-1, 1] that codes mean. `is_upper`: of 4-bit codes, those in the upper halves of the bytes.
inline Float to_numbers(const float* table, bool is_upper, Byte codes) {
  const Int bits = widen(codes);
  if (table != nullptr) return look_up(table, is_upper ? bits >> 4 : bits & 0xF);
  // The shifts extend the sign. 127 · (1 / 127) rounds to 1.
  return __builtin_convertvector((bits << 24) >> 24, Float) * (1.0F / 127.0F);
}

/// `scale(i, lanes)`: the scales of the numbers from i on.
template <class Scale, class T>
void decode_row(const float* table, bool is_upper, std::int64_t count, const std::int8_t* codes, const Scale& scale,
                T* y) {
  each_vector(0, count, [&](std::int64_t i, auto lanes) {
    store(y + i, to_numbers(table, is_upper, load_bytes<Byte>(codes + i, lanes)) * scale(i, lanes), lanes);
  });
}

/// Decodes the `count` numbers of a block that follow one another.
template <class T>
void decode_block(const CodedWeight& weight, std::int64_t count, const std::int8_t* codes, float scale, T* y) {
  const std::int64_t bytes = bytes_of(weight, count);
  const auto one = [scale](std::int64_t /*i*/, auto /*lanes*/) { return scale; };
  decode_row(weight.numbers, false, bytes, codes, one, y);
  if (bytes < count) decode_row(weight.numbers, true, count - bytes, codes, one, y + bytes);
}

/// Decodes a block of `count` rows.
template <class T>
void decode_rows(const CodedWeight& weight, std::int64_t count, const std::int8_t* codes, const float* scales, T* y) {
  const std::int64_t inner = weight.inner;
  const std::int64_t bytes = bytes_of(weight, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_upper = i >= bytes;
    const std::int8_t* row = codes + (is_upper ? i - bytes : i) * inner;
    decode_row(
        weight.numbers, is_upper, inner, row,
        [scales](std::int64_t number, auto lanes) { return load(scales + number, lanes); }, y + i * inner);
  }
}

template <class T>
void dequantize(const CodedWeight& weight, const std::int8_t* codes, const float* scales, T* y, int threads) {
  const std::int64_t blocks = divide_up(weight.length, weight.block);
  const std::int64_t bytes = bytes_of(weight, weight.length);
  const std::int64_t grain = divide_up(kParallelGrain, larger(weight.block * weight.inner, 1));
  parallel_ranges(threads, weight.outer * blocks, 1, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t outer = at / blocks;
      const std::int64_t begin = at % blocks * weight.block;
      const std::int64_t count = smaller(weight.block, weight.length - begin);
      const std::int8_t* of_block = codes + (outer * bytes + bytes_of(weight, begin)) * weight.inner;
      T* to = y + (outer * weight.length + begin) * weight.inner;
      if (weight.inner == 1) {
        decode_block(weight, count, of_block, scales[at], to);
      } else {
        decode_rows(weight, count, of_block, scales + at * weight.inner, to);
      }
    }
  });
}

template <class T>
constexpr WeightKernels<T> kKernels = {dequantize<T>};

}  // namespace

const ByElement<WeightKernels> weight_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
