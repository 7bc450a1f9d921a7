#pragma once

// Products of small bf16 matrices on the matrix units (AMX). A unit multiplies 16 rows of 32 bf16 numbers by 16
// columns. The second matrix is stored as words of two numbers that are neighbours along the depth: word [k][n] is
// (b[2k][n], b[2k + 1][n]), with the even one in the low half.

#include "kernels/vector/element.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Rows, columns and depth of a block of a product. All sizes are padded to multiples of it.
constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kBlockWords = kBlock / 2;

/// During its lifetime, the calling thread's tiles are configured for these products. oneDNN configures its own.
class MatrixTiles {
 public:
  MatrixTiles() {
    alignas(64) Configuration configuration;
    _tile_loadconfig(&configuration);
  }
  ~MatrixTiles() { _tile_release(); }
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

 private:
  /// The processor's format of the configuration, here for eight tiles of 16 rows of 64 bytes.
  struct Configuration {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Configuration) == 64);
};

/// Two neighbours along the depth as one word.
inline Word paired(Half even, Half odd) { return zero_extend(even) | (zero_extend(odd) << 16); }

/// c[block][block] (+)= a[block][depth] · b[depth][block]; strides in elements.
inline void multiply_block(std::int64_t depth, const BFloat16* a, std::int64_t a_stride, const std::uint32_t* b,
                           std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate) {
  const std::int64_t a_bytes = a_stride * static_cast<std::int64_t>(sizeof *a);
  const std::int64_t b_bytes = b_stride * static_cast<std::int64_t>(sizeof *b);
  const std::int64_t c_bytes = c_stride * static_cast<std::int64_t>(sizeof *c);
  float* const lower = c + kTileRows * c_stride;
  // The intrinsics do not tell the compiler that they read memory.
  __asm__ volatile("" ::: "memory");
  if (accumulate) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + kTileRows, c_bytes);
    _tile_loadd(2, lower, c_bytes);
    _tile_loadd(3, lower + kTileRows, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < depth; k += kBlock, a += kBlock, b += kBlockWords * b_stride) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTileRows, b_bytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileRows * a_stride, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + kTileRows, c_bytes);
  _tile_stored(2, lower, c_bytes);
  _tile_stored(3, lower + kTileRows, c_bytes);
}

/// multiply_block() for any number of blocks.
inline void multiply_blocks(std::int64_t rows, std::int64_t columns, std::int64_t depth, const BFloat16* a,
                            std::int64_t a_stride, const std::uint32_t* b, std::int64_t b_stride, float* c,
                            std::int64_t c_stride, bool accumulate) {
  for (std::int64_t row = 0; row < rows; row += kBlock) {
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      multiply_block(depth, a + row * a_stride, a_stride, b + column, b_stride, c + row * c_stride + column, c_stride,
                     accumulate);
    }
  }
}

/// For one stage of a transposition: the lanes of two rows, numbered as one list, that make up the two new rows.
template <int step>
struct ExchangedLanes {
  constexpr ExchangedLanes() {
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool moves = (lane & step) != 0;
      first[lane] = moves ? kLanes + lane - step : lane;
      second[lane] = moves ? kLanes + lane : lane + step;
    }
  }
  std::int32_t first[kLanes] = {};
  std::int32_t second[kLanes] = {};
};

template <int step>
inline void exchange(__m512i& a, __m512i& b) {
  static constexpr ExchangedLanes<step> kExchanged;
  const __m512i before = a;
  a = _mm512_permutex2var_epi32(before, load<__m512i>(kExchanged.first), b);
  b = _mm512_permutex2var_epi32(before, load<__m512i>(kExchanged.second), b);
}

template <int step>
inline void exchange_all(__m512i* rows) {
  STRATA_UNROLL
  for (int row = 0; row < kLanes; ++row) {
    if ((row & step) == 0) exchange<step>(rows[row], rows[row + step]);
  }
}

/// to[column][row] = from[row][column] for 32-bit elements; rows and columns are multiples of 16.
inline void transpose_words(std::int64_t row_count, std::int64_t columns, const void* from, std::int64_t from_stride,
                            void* to, std::int64_t to_stride) {
  const auto* source = static_cast<const std::uint32_t*>(from);
  auto* destination = static_cast<std::uint32_t*>(to);
  for (std::int64_t row = 0; row < row_count; row += kLanes) {
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      __m512i rows[kLanes];
      STRATA_UNROLL
      for (int i = 0; i < kLanes; ++i) rows[i] = load<__m512i>(source + (row + i) * from_stride + column);
      exchange_all<8>(rows);
      exchange_all<4>(rows);
      exchange_all<2>(rows);
      exchange_all<1>(rows);
      STRATA_UNROLL
      for (int i = 0; i < kLanes; ++i) store(destination + (column + i) * to_stride + row, rows[i]);
    }
  }
}

/// to[padded rows][padded width] = from[rows][width], padded with 0.
inline void copy_padded(std::int64_t rows, std::int64_t width, const BFloat16* from, std::int64_t stride,
                        std::int64_t padded_rows, std::int64_t padded_width, BFloat16* to) {
  for (std::int64_t row = 0; row < padded_rows; ++row, to += padded_width) {
    const BFloat16* source = from + row * stride;
    for (std::int64_t i = 0; i < padded_width; i += kLanes) {
      const std::int64_t count = row < rows ? smaller(kLanes, width - i) : 0;
      Half value{};
      if (count == kLanes) value = load<Half>(static_cast<const void*>(source + i));
      if (count > 0 && count < kLanes) value = load_first_half(source + i, count);
      store(static_cast<void*>(to + i), value);
    }
  }
}

/// to[row / 2][column] = the pair of from[row][column] and from[row + 1][column]. The number of rows is even, and
/// columns are padded.
inline void pair_rows(std::int64_t rows, std::int64_t columns, const BFloat16* from, std::int64_t from_stride,
                      std::uint32_t* to, std::int64_t to_stride) {
  for (std::int64_t row = 0; row < rows; row += 2, to += to_stride) {
    const BFloat16* even = from + row * from_stride;
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      const auto low = load<Half>(static_cast<const void*>(even + column));
      const auto high = load<Half>(static_cast<const void*>(even + from_stride + column));
      store(to + column, paired(low, high));
    }
  }
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
