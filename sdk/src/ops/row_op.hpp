#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_base.hpp"

/// \file
/// Ops of rows [… E] whose last dim is not sharded, such as the scores of experts.

namespace strata::ops {

/// OpDescription::iterate of an op that needs the last dim of its rows whole.
inline void keep_rows_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole.insert(space.operands[0].back());
}

inline void require_rows(const TensorType& type, const Node& node) {
  require_float(type, node);
  require(!type.dims.empty(), node, "the operand has at least one dim");
}

/// exp(x - the largest) of a row, and their sum.
struct Exponentials {
  Exponentials(const Reader& x, std::int64_t first, std::int64_t count) : values(static_cast<std::size_t>(count)) {
    largest = x[first];
    for (std::int64_t j = 1; j < count; ++j) largest = std::max(largest, x[first + j]);
    for (std::int64_t j = 0; j < count; ++j) {
      values[static_cast<std::size_t>(j)] = std::exp(x[first + j] - largest);
      sum += values[static_cast<std::size_t>(j)];
    }
  }

  [[nodiscard]] double probability(std::int64_t j) const { return values[static_cast<std::size_t>(j)] / sum; }

  double largest = 0;
  double sum = 0;
  std::vector<double> values;
};

/// A kernel that computes row after row: body(launch, first element of the row, elements of the row).
template <void (*kBody)(const Launch&, std::int64_t, std::int64_t)>
Work prepare_rows(const OpInstance& op) {
  return [count = rows(op.operands[0]), width = columns(op.operands[0])](const Launch& launch) {
    for (std::int64_t row = 0; row < count; ++row) kBody(launch, row * width, width);
  };
}

}  // namespace strata::ops
