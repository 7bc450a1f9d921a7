#include <array>
#include <vector>

#include "emulator/block.hpp"
#include "emulator/collective.hpp"
#include "emulator/rough_arithmetic.hpp"
#include "strata/half.hpp"

namespace strata::cuda::emulator {
namespace {

constexpr std::uint32_t kAllLanes = 0xFFFFFFFFU;

/// The operands that one lane contributes to a product.
struct Fragments {
  std::array<std::uint32_t, 4> a;
  std::array<std::uint32_t, 2> b;
  std::array<float, 4> c;
};

/// The result D of the whole warp.
struct Product {
  std::array<std::array<float, 8>, 16> d;
};

std::uint16_t half_of(std::uint32_t pair, int index) {
  return static_cast<std::uint16_t>(index == 0 ? pair & 0xFFFFU : pair >> 16U);
}

/// Operands in f64, in which their products are exact.
using MatrixA = double[16][16];
using MatrixB = double[16][8];

/// A row of the result. Four columns at once, since sums have one order.
void add_exactly(std::array<float, 8>& row, const double (&a)[16], const MatrixB& b) {
  for (std::size_t column = 0; column < 8; column += 4) {
    double first = row[column];
    double second = row[column + 1];
    double third = row[column + 2];
    double fourth = row[column + 3];
    for (std::size_t k = 0; k < 16; ++k) {
      const double factor = a[k];
      const double* of_term = &b[k][column];
      first += factor * of_term[0];
      second += factor * of_term[1];
      third += factor * of_term[2];
      fourth += factor * of_term[3];
    }
    row[column] = static_cast<float>(first);
    row[column + 1] = static_cast<float>(second);
    row[column + 2] = static_cast<float>(third);
    row[column + 3] = static_cast<float>(fourth);
  }
}

void add_roughly(std::array<float, 8>& row, const double (&a)[16], const MatrixB& b) {
  std::array<double, kTermsOfRoughUnit + 1> terms{};
  for (std::size_t column = 0; column < 8; ++column) {
    for (std::size_t begin = 0; begin < 16; begin += kTermsOfRoughUnit) {
      terms[0] = row[column];
      for (std::size_t k = 0; k < kTermsOfRoughUnit; ++k) terms[k + 1] = a[begin + k] * b[begin + k][column];
      row[column] = matrix_unit_sum(terms);
    }
  }
}

Product multiply(const Meeting& meeting, float (*widen)(std::uint16_t)) {
  MatrixA a;
  MatrixB b;
  Product product;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto fragments = meeting.from<Fragments>(lane);
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    for (int i = 0; i < 8; ++i) {
      const int piece = i / 2;
      const int row = group + piece % 2 * 8;
      a[row][pair + piece / 2 * 8 + i % 2] = widen(half_of(fragments.a[static_cast<std::size_t>(piece)], i % 2));
    }
    for (int i = 0; i < 4; ++i) {
      const auto at = static_cast<std::size_t>(i);
      b[pair + i / 2 * 8 + i % 2][group] = widen(half_of(fragments.b[at / 2], i % 2));
      product.d[static_cast<std::size_t>(group + i / 2 * 8)][static_cast<std::size_t>(pair + i % 2)] = fragments.c[at];
    }
  }
  const bool rough = is_rough();
  for (std::size_t row = 0; row < 16; ++row) {
    if (rough) {
      add_roughly(product.d[row], a[row], b);
    } else {
      add_exactly(product.d[row], a[row], b);
    }
  }
  return product;
}

/// The result of a meeting. The first lane that resumes computes it for all.
template <class Result, class Compute>
const Result& result_of(Meeting& meeting, const Compute& compute) {
  static_assert(sizeof(Result) <= sizeof(meeting.result));
  if (meeting.present != kAllLanes) fail("a lane has left the kernel before an instruction of the whole warp");
  if (!meeting.has_result) {
    const Result result = compute();
    std::memcpy(meeting.result.data(), &result, sizeof(result));
    meeting.has_result = true;
  }
  return *reinterpret_cast<const Result*>(meeting.result.data());
}

using Row = std::array<std::uint16_t, 8>;
using Pieces = std::array<std::array<Row, 8>, 4>;

}  // namespace

float half_to_float(std::uint16_t bits) {
  static const std::vector<float> kTable = [] {
    std::vector<float> table;
    for (std::uint32_t each = 0; each <= 0xFFFFU; ++each) table.push_back(from_f16(static_cast<std::uint16_t>(each)));
    return table;
  }();
  return kTable[bits];
}

void matrix_multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4],
                         float (*widen)(std::uint16_t)) {
  const Fragments own{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {c[0], c[1], c[2], c[3]}};
  Meeting& meeting = meet_with(Collective::matrix_product, kAllLanes, own);
  const auto& product = result_of<Product>(meeting, [&] { return multiply(meeting, widen); });
  const auto row = static_cast<std::size_t>(current_lane() / 4);
  const auto column = static_cast<std::size_t>(current_lane() % 4 * 2);
  d[0] = product.d[row][column];
  d[1] = product.d[row][column + 1];
  d[2] = product.d[row + 8][column];
  d[3] = product.d[row + 8][column + 1];
}

void load_matrices(std::uint32_t (&pieces)[4], const void* row, bool transposed) {
  const int lane = current_lane();
  check_aligned(row, sizeof(Row));
  Meeting& meeting = meet_with(Collective::matrix_load, kAllLanes, row);
  // The first lane reads for all lanes, because another lane may write to this memory as soon as it resumes.
  const auto& loaded = result_of<Pieces>(meeting, [&] {
    Pieces all{};
    for (int i = 0; i < kLanes; ++i) {
      std::memcpy(&all[static_cast<std::size_t>(i / 8)][static_cast<std::size_t>(i % 8)], meeting.from<const void*>(i),
                  sizeof(Row));
    }
    return all;
  });
  const auto outer = static_cast<std::size_t>(lane / 4);
  const auto inner = static_cast<std::size_t>(lane % 4 * 2);
  for (int i = 0; i < 4; ++i) {
    const auto& piece = loaded[static_cast<std::size_t>(i)];
    const std::uint32_t low = transposed ? piece[inner][outer] : piece[outer][inner];
    const std::uint32_t high = transposed ? piece[inner + 1][outer] : piece[outer][inner + 1];
    pieces[i] = low | high << 16U;
  }
}

}  // namespace strata::cuda::emulator
