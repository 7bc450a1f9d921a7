#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strata/kernel.hpp"

namespace adafactor {

/// A run of elements of this rank's piece that lie side by side along one side of the parameter's matrix.
struct Run {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  /// Index, among the sums of all rows and then of all columns, of the sum that every element of the run joins.
  std::int64_t shared = 0;
  /// Index of the sum of the first element along the other side. The following elements have the following indices.
  std::int64_t first = 0;
};

/// This rank's piece of a parameter that is a matrix of `rows` input indices and `columns` output indices. The piece is
/// cut from the rank's block of the parameter, which may be sharded too.
class FactoredPiece {
 public:
  /// `op` iterates "flat", the rank's piece of its block, and the dims of the parameter. Its attributes `rows` and
  /// `columns` name the dims of the two sides, `dims` all in the order of the parameter.
  explicit FactoredPiece(const strata::OpInstance& op);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// The runs in ascending order. They leave out the padding of the flat bucket.
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }

 private:
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::vector<Run> runs_;
};

}  // namespace adafactor
