// The matrix units of the emulator, compared with loops and with the layout in the PTX documentation.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "language/language.hpp"
#include "language/launch.hpp"

namespace strata::cuda {
namespace {

/// D = A · B + C of 16 by 8 by 16, with A row-major and B column-major, in the register layout of the PTX
/// documentation.
template <class T>
__global__ void multiply_tile(const T* a, const T* b, const float* c, float* d) {
  const unsigned group = threadIdx.x / 4;
  const unsigned pair = threadIdx.x % 4 * 2;
  const auto word = [](const T* from) { return from[0].bits | static_cast<std::uint32_t>(from[1].bits) << 16U; };
  const std::uint32_t fragment_a[4] = {word(a + group * 16 + pair), word(a + (group + 8) * 16 + pair),
                                       word(a + group * 16 + pair + 8), word(a + (group + 8) * 16 + pair + 8)};
  const std::uint32_t fragment_b[2] = {word(b + group * 16 + pair), word(b + group * 16 + pair + 8)};
  float sum[4] = {c[group * 8 + pair], c[group * 8 + pair + 1], c[(group + 8) * 8 + pair],
                  c[(group + 8) * 8 + pair + 1]};
  mma_m16n8k16<T>(sum, fragment_a, fragment_b, sum);
  d[group * 8 + pair] = sum[0];
  d[group * 8 + pair + 1] = sum[1];
  d[(group + 8) * 8 + pair] = sum[2];
  d[(group + 8) * 8 + pair + 1] = sum[3];
}

/// The same product with operands loaded by ldmatrix from shared memory, where B is row-major.
template <class T>
__global__ void multiply_loaded_tile(const T* a, const T* b, const float* c, float* d) {
  __shared__ __align__(16) T shared_a[16 * 16];
  __shared__ __align__(16) T shared_b[16 * 16];
  for (unsigned i = threadIdx.x; i < 256; i += 32) shared_a[i] = a[i];
  for (unsigned i = threadIdx.x; i < 128; i += 32) shared_b[i % 16 * 16 + i / 16] = b[i];
  __syncwarp();
  const unsigned lane = threadIdx.x;
  std::uint32_t fragment_a[4];
  std::uint32_t pieces_of_b[4];  // the first two are B
  ldmatrix_x4(fragment_a, shared_a + lane % 16 * 16 + lane / 16 * 8);
  ldmatrix_x4_trans(pieces_of_b, shared_b + lane % 16 * 16 + lane / 16 * 8);
  const std::uint32_t fragment_b[2] = {pieces_of_b[0], pieces_of_b[1]};
  float sum[4];
  const unsigned group = lane / 4;
  const unsigned pair = lane % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) sum[i] = c[(group + i / 2 * 8) * 8 + pair + i % 2];
  mma_m16n8k16<T>(sum, fragment_a, fragment_b, sum);
  for (unsigned i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + pair + i % 2] = sum[i];
}

template <class T>
class EmulatedMatrixProduct : public ::testing::Test {};
using ShortElements = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(EmulatedMatrixProduct, ShortElements);

TYPED_TEST(EmulatedMatrixProduct, EqualsThreeLoops) {
  std::vector<TypeParam> a(256);
  std::vector<TypeParam> b(128);
  std::vector<float> c(128);
  // Small whole numbers: every sum is exact.
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = narrow<TypeParam>(static_cast<float>(i * 29 % 23) - 11.0F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = narrow<TypeParam>(static_cast<float>(i * 17 % 19) - 9.0F);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i * 13 % 31);
  std::vector<float> expected = c;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      for (std::size_t k = 0; k < 16; ++k) {
        expected[row * 8 + column] += widen(a[row * 16 + k]) * widen(b[column * 16 + k]);
      }
    }
  }
  std::vector<float> d(128);
  launch(multiply_tile<TypeParam>, {{1}, {32}}, nullptr, a.data(), b.data(), c.data(), d.data());
  EXPECT_EQ(d, expected);
  std::fill(d.begin(), d.end(), 0.0F);
  launch(multiply_loaded_tile<TypeParam>, {{1}, {32}}, nullptr, a.data(), b.data(), c.data(), d.data());
  EXPECT_EQ(d, expected);
}

__global__ void load_pieces(const std::uint16_t* from, std::uint32_t* plain, std::uint32_t* transposed) {
  __shared__ __align__(16) std::uint16_t shared[256];
  for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = from[i];
  __syncwarp();
  std::uint32_t pieces[4];
  ldmatrix_x4(pieces, shared + threadIdx.x * 8);
  for (unsigned i = 0; i < 4; ++i) plain[i * 32 + threadIdx.x] = pieces[i];
  ldmatrix_x4_trans(pieces, shared + threadIdx.x * 8);
  for (unsigned i = 0; i < 4; ++i) transposed[i * 32 + threadIdx.x] = pieces[i];
}

TEST(EmulatedMatrixUnit, LoadsPieces) {
  std::vector<std::uint16_t> from(256);
  std::iota(from.begin(), from.end(), std::uint16_t{0});
  std::vector<std::uint32_t> plain(128);
  std::vector<std::uint32_t> transposed(128);
  launch(load_pieces, {{1}, {32}}, nullptr, from.data(), plain.data(), transposed.data());
  for (unsigned piece = 0; piece < 4; ++piece) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned outer = lane / 4;
      const unsigned inner = lane % 4 * 2;
      const auto element = [piece](unsigned row, unsigned column) { return piece * 64 + row * 8 + column; };
      EXPECT_EQ(plain[piece * 32 + lane], element(outer, inner) | element(outer, inner + 1) << 16U);
      EXPECT_EQ(transposed[piece * 32 + lane], element(inner, outer) | element(inner + 1, outer) << 16U);
    }
  }
}

}  // namespace
}  // namespace strata::cuda
