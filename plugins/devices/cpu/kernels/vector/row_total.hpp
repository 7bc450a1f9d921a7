#pragma once

#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Sums term(i) over the whole vectors of a row, and first(i, n) for its last n elements. Four partial sums hide the
/// latency of additions and reduce the rounding error of a long row.
template <class Term, class First>
inline float row_total(std::int64_t columns, const Term& term, const First& first) {
  constexpr int kSums = 4;
  Float sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= columns; i += kSums * kLanes) {
    STRATA_UNROLL
    for (int part = 0; part < kSums; ++part) sums[part] += term(i + part * kLanes);
  }
  for (; i + kLanes <= columns; i += kLanes) sums[0] += term(i);
  if (i < columns) sums[1] += first(i, columns - i);
  return horizontal_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// A vector with 1 in the first `count` lanes and 0 in the others.
inline Float first_lanes(std::int64_t count) {
  Float value{};
  for (std::int64_t lane = 0; lane < count; ++lane) value[lane] = 1.0F;
  return value;
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
