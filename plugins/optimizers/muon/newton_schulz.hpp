#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/optimizer.hpp"
#include "strata/strategy.hpp"

namespace muon {

/// A parameter as one matrix, or as several: its dimensions are those of the input side, over which products with the
/// parameter sum, those of the output side, and those that number the matrices.
///
/// Example: a projection [embed heads head_dim] is one matrix of embed inputs and heads · head_dim outputs, or, split
/// by "heads", one matrix of embed inputs and head_dim outputs for each head.
struct MatrixView {
  strata::Dims matrices;
  strata::Dims inputs;
  strata::Dims outputs;
};

/// `split`: names of dimensions that number matrices, in parameters that have them.
MatrixView view(const strata::ParameterDescription& parameter, const std::vector<std::string>& split);

/// Why the view has no matrices. Empty if it has.
std::optional<std::string> fault(const strata::ParameterDescription& parameter, const MatrixView& view);

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
