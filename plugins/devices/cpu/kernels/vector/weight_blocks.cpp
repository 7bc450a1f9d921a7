#include "kernels/weight_blocks.hpp"

#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Codes that are converted at a time.
constexpr std::int64_t kPiece = 256;

inline std::int64_t bytes_of(const CodedWeight& weight, std::int64_t numbers) {
  return weight.numbers != nullptr ? divide_up(numbers, 2) : numbers;
}

/// The numbers in [-1, 1] that codes mean. `is_upper`: of 4-bit codes, those in the upper halves of the bytes.
inline void to_numbers(const float* table, bool is_upper, std::int64_t count, const std::int8_t* codes,
                       float* numbers) {
  if (table == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(codes[i]) / 127.0F;
    return;
  }
  const int shift = is_upper ? 4 : 0;
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = table[(static_cast<std::uint8_t>(codes[i]) >> shift) & 0xF];
}

/// The scale of all numbers of a row.
struct OneScale {
  float scale;

  [[nodiscard]] Float at(std::int64_t /*i*/) const { return broadcast(scale); }
  [[nodiscard]] Float first_at(std::int64_t /*i*/, std::int64_t /*count*/) const { return broadcast(scale); }
};

/// A scale for each number of a row.
struct ScaleRow {
  const float* scales;

  [[nodiscard]] Float at(std::int64_t i) const { return load(scales + i); }
  [[nodiscard]] Float first_at(std::int64_t i, std::int64_t count) const { return load_first(scales + i, count); }
};

template <class Scale, class T>
void decode_row(const float* table, bool is_upper, std::int64_t count, const std::int8_t* codes, const Scale& scale,
                T* y) {
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = smaller(kPiece, count - begin);
    float numbers[kPiece];
    to_numbers(table, is_upper, length, codes + begin, numbers);
    each_vector(
        0, length, [&](std::int64_t i) { store(y + begin + i, load(numbers + i) * scale.at(begin + i)); },
        [&](std::int64_t i, std::int64_t n) {
          store_first(y + begin + i, load_first(numbers + i, n) * scale.first_at(begin + i, n), n);
        });
  }
}

/// Decodes the `count` numbers of a block that follow one another.
template <class T>
void decode_block(const CodedWeight& weight, std::int64_t count, const std::int8_t* codes, float scale, T* y) {
  const std::int64_t bytes = bytes_of(weight, count);
  decode_row(weight.numbers, false, bytes, codes, OneScale{scale}, y);
  if (bytes < count) decode_row(weight.numbers, true, count - bytes, codes, OneScale{scale}, y + bytes);
}

/// Decodes a block of `count` rows.
template <class T>
void decode_rows(const CodedWeight& weight, std::int64_t count, const std::int8_t* codes, const float* scales, T* y) {
  const std::int64_t inner = weight.inner;
  const std::int64_t bytes = bytes_of(weight, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_upper = i >= bytes;
    const std::int8_t* row = codes + (is_upper ? i - bytes : i) * inner;
    decode_row(weight.numbers, is_upper, inner, row, ScaleRow{scales}, y + i * inner);
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
