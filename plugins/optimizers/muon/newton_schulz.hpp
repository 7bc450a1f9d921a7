#pragma once

#include <cstdint>
#include <vector>

#include "matrix_view.hpp"
#include "strata/optimizer.hpp"

namespace muon {

/// The Newton-Schulz iteration that moves all singular values of a matrix towards 1. Each step maps X to
/// a X + b (X Xᵀ) X + c (X Xᵀ)² X.
struct NewtonSchulz {
  double a = 0;
  double b = 0;
  double c = 0;
  std::int64_t steps = 0;
  /// Factor of the result.
  double scale = 1;
};

/// Emits the iteration on every matrix of a parameter.
strata::NamedBuffer emit(strata::WholeContext& context, const strata::NamedBuffer& direction, const MatrixView& view,
                         const NewtonSchulz& iteration);

/// The iteration in plain code, on one matrix of `rows` rows.
void iterate(std::vector<double>& matrix, std::int64_t rows, const NewtonSchulz& iteration);

}  // namespace muon
