#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

using Byte = std::int8_t __attribute__((vector_size(kLanes)));

/// Numbers that are unpacked at a time. It is even, so that pieces begin at whole bytes.
constexpr std::int64_t kPiece = 256;

constexpr float kSmallestScale = 0x1p-126F;
constexpr std::uint32_t kInfinityBits = 0x7F800000U;

/// A block of a run, or a part of one.
struct Place {
  std::int64_t run;
  std::int64_t begin;  ///< index within the run
  std::int64_t length;
};

inline std::int64_t bytes(const QuantizedBlocks& shape, std::int64_t numbers) {
  return divide_up(numbers * shape.bits, 8);
}

inline std::int64_t blocks_of_run(const QuantizedBlocks& shape) { return divide_up(shape.length, shape.block); }

/// Calls body(place) for every block of every run.
template <class Body>
void each_block(const QuantizedBlocks& shape, std::int64_t work, int threads, const Body& body) {
  const std::int64_t blocks = blocks_of_run(shape);
  const std::int64_t grain = divide_up(kParallelGrain, larger(shape.block * work, 1));
  parallel_ranges(threads, shape.runs * blocks, 1, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t within = at % blocks * shape.block;
      body(Place{at / blocks, within, smaller(shape.block, shape.length - within)});
    }
  });
}

/// The bits of the largest magnitude. As integers, bits of a NaN exceed those of infinity, and those exceed all others.
/// So the result shows whether a number is not finite.
template <class T>
std::uint32_t greatest_bits(std::int64_t length, const T* x) {
  Word greatest{};
  each_vector(0, length, [&](std::int64_t i, auto lanes) {
    const Word magnitude = bits_of<Word>(load(x + i, lanes)) & 0x7FFFFFFFU;
    greatest = greatest > magnitude ? greatest : magnitude;
  });
  std::uint32_t result = 0;
  for (int lane = 0; lane < kLanes; ++lane) result = result > greatest[lane] ? result : greatest[lane];
  return result;
}

/// The nearest integers, ties to even, of numbers below 2^22.
inline Byte nearest_integers(Float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  return __builtin_convertvector(bits_of<Int>(x + kRound) - 0x4B400000, Byte);
}

inline void store_bytes(std::int8_t* to, Byte bytes, AllLanes /*lanes*/) { store(to, bytes); }
inline void store_bytes(std::int8_t* to, Byte bytes, FirstLanes lanes) {
  __builtin_memcpy(to, &bytes, static_cast<std::size_t>(lanes.count));
}

template <class T>
void quantize_piece(std::int64_t length, const T* x, float scale, std::int8_t* integers) {
  each_vector(0, length, [&](std::int64_t i, auto lanes) {
    store_bytes(integers + i, nearest_integers(load(x + i, lanes) / scale), lanes);
  });
}

/// Packs two integers per byte. If their number is odd, `integers` needs a further element that is 0.
inline void pack(std::int64_t length, const std::int8_t* integers, std::int8_t* packed) {
  for (std::int64_t i = 0; i < divide_up(length, 2); ++i) {
    packed[i] = static_cast<std::int8_t>((integers[2 * i] & 0xF) | (integers[2 * i + 1] << 4));
  }
}

inline void unpack(std::int64_t length, const std::int8_t* packed, std::int8_t* integers) {
  for (std::int64_t i = 0; i < divide_up(length, 2); ++i) {
    integers[2 * i] = static_cast<std::int8_t>(static_cast<std::int8_t>(packed[i] << 4) >> 4);
    integers[2 * i + 1] = static_cast<std::int8_t>(packed[i] >> 4);
  }
}

template <class T>
float quantize_block(const QuantizedBlocks& shape, std::int64_t length, const T* x, std::int8_t* integers) {
  const std::uint32_t greatest = greatest_bits(length, x);
  if (greatest >= kInfinityBits) {
    __builtin_memset(integers, 0, static_cast<std::size_t>(bytes(shape, length)));
    return __builtin_nanf("");
  }
  const float wanted = bits_of<float>(greatest) / static_cast<float>((1 << (shape.bits - 1)) - 1);
  const float scale = wanted > kSmallestScale ? wanted : kSmallestScale;
  if (shape.bits == 8) {
    quantize_piece(length, x, scale, integers);
    return scale;
  }
  for (std::int64_t i = 0; i < length; i += kPiece) {
    const std::int64_t n = smaller(kPiece, length - i);
    std::int8_t piece[kPiece];
    quantize_piece(n, x + i, scale, piece);
    if (n % 2 != 0) piece[n] = 0;
    pack(n, piece, integers + i / 2);
  }
  return scale;
}

template <class T>
void quantize(const QuantizedBlocks& shape, const T* x, std::int8_t* integers, float* scales, int threads) {
  each_block(shape, 1, threads, [&](const Place& at) {
    scales[at.run * blocks_of_run(shape) + at.begin / shape.block] =
        quantize_block(shape, at.length, x + at.run * shape.length + at.begin,
                       integers + at.run * bytes(shape, shape.length) + bytes(shape, at.begin));
  });
}

inline Float widen(Byte integers) { return __builtin_convertvector(integers, Float); }

/// sum += integers * scale
inline void add_scaled(std::int64_t length, const std::int8_t* integers, float scale, float* sum) {
  each_vector(0, length, [&](std::int64_t i, auto lanes) {
    store(sum + i, load(sum + i, lanes) + widen(load_bytes<Byte>(integers + i, lanes)) * scale, lanes);
  });
}

template <class T>
void dequantize_piece(const QuantizedBlocks& shape, const Place& at, const std::int8_t* integers, const float* scales,
                      T* y) {
  float sum[kPiece] = {};
  std::int8_t unpacked[kPiece];
  for (std::int64_t source = 0; source < shape.sources; ++source) {
    const std::int64_t run = source * shape.runs + at.run;
    const std::int8_t* piece = integers + run * bytes(shape, shape.length) + bytes(shape, at.begin);
    if (shape.bits == 4) {
      unpack(at.length, piece, unpacked);
      piece = unpacked;
    }
    add_scaled(at.length, piece, scales[run * blocks_of_run(shape) + at.begin / shape.block], sum);
  }
  map_range(0, at.length, sum, y + at.run * shape.length + at.begin, [](Float value) { return value; });
}

template <class T>
void dequantize(const QuantizedBlocks& shape, const std::int8_t* integers, const float* scales, T* y, int threads) {
  each_block(shape, shape.sources, threads, [&](const Place& at) {
    for (std::int64_t i = 0; i < at.length; i += kPiece) {
      const Place piece{at.run, at.begin + i, smaller(kPiece, at.length - i)};
      dequantize_piece(shape, piece, integers, scales, y);
    }
  });
}

template <class T>
constexpr QuantizationKernels<T> kKernels = {quantize<T>, dequantize<T>};

// Weights in blocks.

inline std::int64_t bytes_of(const CodedWeight& weight, std::int64_t numbers) {
  return weight.numbers != nullptr ? divide_up(numbers, 2) : numbers;
}

using Code = std::uint8_t __attribute__((vector_size(kLanes)));

inline Int widen(Code bytes) {
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
inline Float to_numbers(const float* table, bool is_upper, Code codes) {
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
    store(y + i, to_numbers(table, is_upper, load_bytes<Code>(codes + i, lanes)) * scale(i, lanes), lanes);
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
constexpr WeightKernels<T> kWeightKernels = {dequantize<T>};

}  // namespace

const ByElement<QuantizationKernels> quantization_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};
const ByElement<WeightKernels> weight_kernels = {kWeightKernels<float>, kWeightKernels<BFloat16>,
                                                 kWeightKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
