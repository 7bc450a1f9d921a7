#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/strategy.hpp"

/// \file
/// Parameters as matrices, for optimizers and strategies that treat them so.

namespace matrices {

using strata::contains;
using strata::Dim;
using strata::Dims;

/// A parameter as one matrix, or as several: its dimensions are those of the input side, over which products with the
/// parameter sum, those of the output side, and those that number the matrices.
///
/// Example: a projection [embed heads head_dim] is one matrix of embed inputs and heads · head_dim outputs, or, split
/// by "heads", one matrix of embed inputs and head_dim outputs for each head.
struct View {
  Dims matrices;
  Dims inputs;
  Dims outputs;
};

/// `split`: names of dimensions that number matrices, in parameters that have them.
inline View view(const strata::ParameterDescription& parameter, const std::vector<std::string>& split) {
  View view;
  for (const Dim& dim : parameter.dims) {
    if (contains(split, dim)) {
      view.matrices.push_back(dim);
    } else if (contains(parameter.contracted, dim)) {
      view.inputs.push_back(dim);
    } else {
      view.outputs.push_back(dim);
    }
  }
  return view;
}

/// Why the view has no matrices. Empty if it has.
inline std::optional<std::string> fault(const strata::ParameterDescription& parameter, const View& view) {
  if (parameter.contracted.empty()) return "no matrix product reads it";
  if (!view.inputs.empty() && !view.outputs.empty()) return std::nullopt;
  std::string found = "its dimensions [" + strata::join(parameter.dims) + "] have no ";
  found += view.inputs.empty() ? "input" : "output";
  found += " side";
  if (!view.matrices.empty()) found += " besides [" + strata::join(view.matrices) + "], by which it is split";
  return found;
}

/// Number of indices of `dims` in the whole parameter.
inline double size_of(const strata::WholeContext& context, const Dims& dims) {
  double product = 1;
  for (const Dim& dim : dims) product *= static_cast<double>(context.size(dim));
  return product;
}

// For definitions: matrices in f64, row-major.

using Matrix = std::vector<double>;

/// x [rows depth] · y [depth columns]
inline Matrix multiply(const Matrix& x, const Matrix& y, std::size_t rows, std::size_t depth, std::size_t columns) {
  Matrix product(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t column = 0; column < columns; ++column) {
        product[row * columns + column] += x[row * depth + k] * y[k * columns + column];
      }
    }
  }
  return product;
}

inline Matrix transpose(const Matrix& x, std::size_t rows, std::size_t columns) {
  Matrix result(x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) result[column * rows + row] = x[row * columns + column];
  }
  return result;
}

/// The matrices of a parameter, with inputs as rows.
class DefinedMatrices {
 public:
  /// `dims`, `shape`: those of the whole parameter, which outlive the object.
  DefinedMatrices(const Dims& dims, const strata::Shape& shape, View view)
      : dims_(dims), shape_(shape), view_(std::move(view)) {}

  [[nodiscard]] std::size_t count() const { return place(view_.matrices, 0).second; }
  [[nodiscard]] std::size_t rows() const { return place(view_.inputs, 0).second; }
  [[nodiscard]] std::size_t columns() const { return place(view_.outputs, 0).second; }

  /// Row and column of an element of the parameter in its matrix.
  [[nodiscard]] std::pair<std::size_t, std::size_t> row_and_column(std::size_t element) const {
    return {place(view_.inputs, element).first, place(view_.outputs, element).first};
  }
  /// The matrices of row-major `values`.
  [[nodiscard]] std::vector<Matrix> split(const std::vector<double>& values) const {
    std::vector<Matrix> each(count(), Matrix(rows() * columns()));
    for (std::size_t i = 0; i < values.size(); ++i) each[matrix_of(i)][element_of(i)] = values[i];
    return each;
  }
  /// The inverse of split().
  void join(const std::vector<Matrix>& each, std::vector<double>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = each[matrix_of(i)][element_of(i)];
  }

 private:
  [[nodiscard]] std::size_t matrix_of(std::size_t i) const { return place(view_.matrices, i).first; }
  [[nodiscard]] std::size_t element_of(std::size_t i) const {
    const auto [row, column] = row_and_column(i);
    return row * columns() + column;
  }

  /// The row-major index of an element along the dims of `part`, and their size.
  [[nodiscard]] std::pair<std::size_t, std::size_t> place(const Dims& part, std::size_t element) const {
    std::size_t index = 0;
    std::size_t count = 1;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(shape_[d]);
      if (contains(part, dims_[d])) {
        index += element % size * count;
        count *= size;
      }
      element /= size;
    }
    return {index, count};
  }

  const Dims& dims_;
  const strata::Shape& shape_;
  View view_;
};

}  // namespace matrices
