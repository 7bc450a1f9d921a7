#include "kernels/cast.hpp"

#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

using Half = std::uint16_t __attribute__((vector_size(kLanes * 2)));

inline Half round_to_bf16(Float x) {
  const Word bits = bits_of<Word>(x);
  const Word rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Word quiet_nan = (bits >> 16) | 0x40U;
  return __builtin_convertvector(x == x ? rounded : quiet_nan, Half);
}

inline Float widen(Half x) { return bits_of<Float>(__builtin_convertvector(x, Word) << 16); }

void f32_to_bf16(std::int64_t size, const float* x, std::uint16_t* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    each_vector(
        begin, end, [=](std::int64_t i) { store(y + i, round_to_bf16(load(x + i))); },
        [=](std::int64_t i, std::int64_t n) {
          const Half value = round_to_bf16(load_first(x + i, n));
          __builtin_memcpy(y + i, &value, static_cast<std::size_t>(n) * sizeof *y);
        });
  });
}

void bf16_to_f32(std::int64_t size, const std::uint16_t* x, float* y, int threads) {
  parallel_elements(threads, size, [=](std::int64_t begin, std::int64_t end) {
    each_vector(
        begin, end, [=](std::int64_t i) { store(y + i, widen(load<Half>(x + i))); },
        [=](std::int64_t i, std::int64_t n) {
          Half value{};
          __builtin_memcpy(&value, x + i, static_cast<std::size_t>(n) * sizeof *x);
          store_first(y + i, widen(value), n);
        });
  });
}

}  // namespace

const CastKernels cast_kernels = {f32_to_bf16, bf16_to_f32};

}  // namespace strata::cpu::STRATA_CPU_TARGET
