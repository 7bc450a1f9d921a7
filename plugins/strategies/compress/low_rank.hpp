#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compress.hpp"
#include "shared/dot.hpp"
#include "strata/matrix_piece.hpp"

namespace compress {

using strata::plugins::dot;

// The arithmetic of PowerSGD on a piece of a matrix, for kernels of any precision. A factor has `rank` columns, one
// after another.

/// One side of the matrix: rows or columns.
struct Side {
  std::int64_t size = 0;
  /// Number of its first index among all rows and then all columns (MatrixRun).
  std::int64_t begin = 0;
};

inline Side row_side(const strata::MatrixPiece& piece) { return {piece.rows(), 0}; }
inline Side column_side(const strata::MatrixPiece& piece) { return {piece.columns(), piece.rows()}; }

inline bool is_on(const Side& side, std::int64_t index) {
  return index >= side.begin && index < side.begin + side.size;
}

/// Adds, to a factor of the side `to`, the product of the runs [begin, end) of the matrix with a factor `other` of the
/// other side.
template <class T>
void add_product(const std::vector<strata::MatrixRun>& runs, std::size_t begin, std::size_t end, const T* matrix,
                 const T* other, const Side& from, std::int64_t rank, T* into, const Side& to) {
  for (std::size_t r = begin; r < end; ++r) {
    const strata::MatrixRun& run = runs[r];
    const T* const values = matrix + run.begin;
    const bool sums_up = is_on(to, run.shared);
    for (std::int64_t k = 0; k < rank; ++k) {
      if (sums_up) {
        into[k * to.size + run.shared - to.begin] +=
            dot(values, other + k * from.size + run.first - from.begin, run.length);
        continue;
      }
      const T factor = other[k * from.size + run.shared - from.begin];
      T* const along = into + k * to.size + run.first - to.begin;
      for (std::int64_t i = 0; i < run.length; ++i) along[i] += factor * values[i];
    }
  }
}

/// Calls visit(element of the piece, its value in P Qᵀ) for the runs [begin, end).
template <class T, class Visit>
void visit_product(const strata::MatrixPiece& piece, std::size_t begin, std::size_t end, const T* p, const T* q,
                   std::int64_t rank, const Visit& visit) {
  constexpr std::int64_t kBlock = 256;
  T sums[kBlock];
  const Side rows = row_side(piece);
  const Side columns = column_side(piece);
  for (std::size_t r = begin; r < end; ++r) {
    const strata::MatrixRun& run = piece.runs()[r];
    const bool shares_row = is_on(rows, run.shared);
    const Side& shared_side = shares_row ? rows : columns;
    const Side& along_side = shares_row ? columns : rows;
    const T* const shared = (shares_row ? p : q) + run.shared - shared_side.begin;
    const T* const along = (shares_row ? q : p) + run.first - along_side.begin;
    for (std::int64_t from = 0; from < run.length; from += kBlock) {
      const std::int64_t count = std::min(kBlock, run.length - from);
      std::fill_n(sums, count, T{0});
      for (std::int64_t k = 0; k < rank; ++k) {
        const T factor = shared[k * shared_side.size];
        const T* const other = along + k * along_side.size + from;
        for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * other[i];
      }
      for (std::int64_t i = 0; i < count; ++i) visit(run.begin + from + i, sums[i]);
    }
  }
}

/// The first element after the parameter in this rank's piece, where padding begins.
inline std::int64_t padding_begin(const strata::MatrixPiece& piece) {
  return piece.runs().empty() ? 0 : piece.runs().back().begin + piece.runs().back().length;
}

/// Copies Q to `into`, with random columns in place of columns of zeros.
template <class Read, class T>
void begin_basis(const Read& basis, std::int64_t size, std::int64_t rank, const std::string& parameter, T* into) {
  for (std::int64_t k = 0; k < rank; ++k) {
    bool is_zero = true;
    for (std::int64_t j = 0; j < size; ++j) is_zero = is_zero && basis[k * size + j] == 0;
    for (std::int64_t j = k * size; j < (k + 1) * size; ++j) {
      into[j] = static_cast<T>(is_zero ? first_basis(parameter, j) : basis[j]);
    }
  }
}

/// Makes the columns orthonormal by Gram-Schmidt, with a second pass for each column against rounding. `p` is in f64.
/// Columns that are not finite stay so, and then no step is taken.
inline void orthonormalize(double* p, std::int64_t size, std::int64_t rank) {
  const auto length = [size](const double* column) { return std::sqrt(dot(column, column, size)); };
  for (std::int64_t k = 0; k < rank; ++k) {
    double* const column = p + k * size;
    const double before = length(column);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < k; ++j) {
        const double* const earlier = p + j * size;
        const double along = dot(earlier, column, size);
        for (std::int64_t i = 0; i < size; ++i) column[i] -= along * earlier[i];
      }
    }
    const double left = length(column);
    const double factor = left <= kDependent * before ? 0 : 1 / left;
    for (std::int64_t i = 0; i < size; ++i) column[i] = std::isfinite(left) ? column[i] * factor : std::nan("");
  }
}

/// True if the step with this factor of the gradients is taken.
inline bool takes_step(double scale) { return std::isfinite(scale) && scale != 0; }

/// 1 / unit, or 0 without tokens.
inline double inverse_unit(double unit) { return unit == 0 ? 0 : 1 / unit; }

// The choice of the largest elements of a piece, for kernels of any precision.

/// A magnitude as the choice compares it: without the last 20 bits of f64, which f32 lacks. So elements that only
/// rounding tells apart, such as the gradients of two classes, are equal on every layout, and the first one is chosen.
inline double compared(double magnitude) {
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << 20U) - 1;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & ~kDropped);
}
inline float compared(float magnitude) { return magnitude; }

/// Writes the indices of the `chosen` elements with the largest magnitudes to `indices`, in ascending order. Of equal
/// magnitudes the first ones are chosen, and NaN before all. `magnitudes` has room for `count` elements.
template <class T>
void choose_largest(const T* values, std::int64_t count, std::int64_t chosen, T* magnitudes, std::int32_t* indices) {
  const auto magnitude = [&](std::int64_t i) {
    const T value = std::abs(values[i]);
    return std::isnan(value) ? std::numeric_limits<T>::infinity() : compared(value);
  };
  for (std::int64_t i = 0; i < count; ++i) magnitudes[i] = magnitude(i);
  std::nth_element(magnitudes, magnitudes + chosen - 1, magnitudes + count, std::greater<>());
  const T least = magnitudes[chosen - 1];
  auto equal = std::count(magnitudes, magnitudes + chosen, least);
  for (std::int64_t i = 0; i < count; ++i) {
    const T found = magnitude(i);
    if (found > least || (found == least && equal-- > 0)) *indices++ = static_cast<std::int32_t>(i);
  }
}

}  // namespace compress
