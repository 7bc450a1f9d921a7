#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/kernel.hpp"
#include "strata/tensor.hpp"

/// \file
/// A parameter as a matrix, and a rank's piece of it, for ops that sum over rows or columns of a parameter whose
/// elements are shared by several ranks.

namespace strata {

struct ParameterDescription;

/// The two sides of a parameter: the dims that products sum over (rows) and the others (columns). A parameter that no
/// product reads has its first dim as rows.
struct MatrixSides {
  Dims rows;
  Dims columns;
};

[[nodiscard]] STRATA_API MatrixSides matrix_sides(const ParameterDescription& parameter);

/// The attributes from which an op makes its MatrixPiece: `dims`, `rows`, `columns`, which name the dims of the
/// parameter and of its sides.
[[nodiscard]] STRATA_API Attributes matrix_attributes(const ParameterDescription& parameter);

/// A run of elements of this rank's piece that lie side by side along one side of the parameter's matrix.
struct MatrixRun {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  /// Index, among all rows and then all columns, of the row or column that every element of the run is in.
  std::int64_t shared = 0;
  /// Index of the first element along the other side. The following elements have the following indices.
  std::int64_t first = 0;
};

/// This rank's piece of a parameter that is a matrix of `rows` input indices and `columns` output indices. The piece is
/// cut from the rank's block of the parameter, which may be sharded too.
class STRATA_API MatrixPiece {
 public:
  /// `op` iterates "flat", the rank's piece of its block, and the dims of the parameter. It has matrix_attributes().
  explicit MatrixPiece(const OpInstance& op);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// The runs in ascending order. They leave out the padding of the flat bucket.
  [[nodiscard]] const std::vector<MatrixRun>& runs() const { return runs_; }

 private:
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::vector<MatrixRun> runs_;
};

/// A piece cut into blocks of runs of about equal length, for the threads of a host kernel. The blocks do not depend on
/// the number of threads, so sums over blocks do not either.
class STRATA_API MatrixBlocks {
 public:
  explicit MatrixBlocks(const OpInstance& op);

  [[nodiscard]] const MatrixPiece& piece() const { return piece_; }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()); }

  /// Calls body(block, first run, end of its runs) for all blocks on several threads.
  void for_each(int threads,
                const std::function<void(std::int64_t block, std::size_t begin, std::size_t end)>& body) const;

 private:
  MatrixPiece piece_;
  std::vector<std::size_t> begins_;
};

}  // namespace strata
