/// The definition of PowerSGD on whole matrices, in plain code.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "exchange_ops.hpp"
#include "power_sgd.hpp"

namespace compress {

using namespace strata;

namespace {

/// A dense matrix, row-major.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values = std::vector<double>(rows * columns);

  double& at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  [[nodiscard]] double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result{a.rows, b.columns};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.columns; ++k) {
      for (std::size_t j = 0; j < b.columns; ++j) result.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return result;
}

Matrix transposed(const Matrix& a) {
  Matrix result{a.columns, a.rows};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) result.at(j, i) = a.at(i, j);
  }
  return result;
}

/// The matrix that the elements of a parameter are.
class ParameterMatrix {
 public:
  explicit ParameterMatrix(const ParameterDescription& parameter) {
    const MatrixSides sides = matrix_sides(parameter);
    rows_ = static_cast<std::size_t>(element_count(parameter, sides.rows));
    columns_ = static_cast<std::size_t>(element_count(parameter, sides.columns));
    for (std::int64_t i = 0; i < parameter.elements; ++i) {
      std::size_t index[] = {0, 0};
      std::size_t stride[] = {1, 1};
      std::int64_t rest = i;
      for (std::size_t d = parameter.dims.size(); d-- > 0;) {
        const std::size_t which = find_dim(sides.rows, parameter.dims[d]) >= 0 ? 0 : 1;
        index[which] += static_cast<std::size_t>(rest % parameter.shape[d]) * stride[which];
        stride[which] *= static_cast<std::size_t>(parameter.shape[d]);
        rest /= parameter.shape[d];
      }
      places_.emplace_back(index[0], index[1]);
    }
  }

  [[nodiscard]] std::size_t columns() const { return columns_; }

  [[nodiscard]] Matrix matrix(const std::vector<double>& elements) const {
    Matrix result{rows_, columns_};
    for (std::size_t i = 0; i < places_.size(); ++i) result.at(places_[i].first, places_[i].second) = elements[i];
    return result;
  }

  [[nodiscard]] std::vector<double> elements(const Matrix& matrix) const {
    std::vector<double> result;
    for (const auto& [row, column] : places_) result.push_back(matrix.at(row, column));
    return result;
  }

 private:
  std::size_t rows_ = 1;
  std::size_t columns_ = 1;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
};

double length(const Matrix& a, std::size_t column) {
  double squares = 0;
  for (std::size_t i = 0; i < a.rows; ++i) squares += a.at(i, column) * a.at(i, column);
  return std::sqrt(squares);
}

/// Gram-Schmidt, twice for each column, as rounding demands.
void make_orthonormal(Matrix& a) {
  for (std::size_t k = 0; k < a.columns; ++k) {
    const double before = length(a, k);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < k; ++j) {
        double dot = 0;
        for (std::size_t i = 0; i < a.rows; ++i) dot += a.at(i, j) * a.at(i, k);
        for (std::size_t i = 0; i < a.rows; ++i) a.at(i, k) -= dot * a.at(i, j);
      }
    }
    const double left = length(a, k);
    const double factor = left <= kDependent * before ? 0 : 1 / left;
    for (std::size_t i = 0; i < a.rows; ++i) a.at(i, k) *= factor;
  }
}

}  // namespace

void define_reduction(const PowerSgd& method, DefinedGradient& gradient) {
  const ParameterMatrix shape(gradient.parameter);
  Matrix q{shape.columns(), static_cast<std::size_t>(method.rank)};
  std::vector<double>& basis = gradient.states["basis"];
  if (!basis.empty()) q.values = basis;
  for (std::size_t k = 0; k < q.columns; ++k) {
    if (length(q, k) > 0) continue;
    for (std::size_t j = 0; j < q.rows; ++j) {
      q.at(j, k) = first_basis(gradient.parameter.name, static_cast<std::int64_t>(k * q.rows + j));
    }
  }
  std::vector<Matrix> matrices;
  Matrix p;
  for (std::size_t w = 0; w < gradient.shares.size(); ++w) {
    std::vector<double> sum = gradient.shares[w];
    const std::vector<double>& error = gradient.states["error of worker " + std::to_string(w)];
    for (std::size_t i = 0; i < error.size(); ++i) sum[i] += error[i];
    matrices.push_back(shape.matrix(sum));
    const Matrix own = product(matrices.back(), q);
    if (w == 0) p = Matrix{own.rows, own.columns};
    for (std::size_t i = 0; i < p.values.size(); ++i) p.values[i] += own.values[i];
  }
  make_orthonormal(p);
  q.values.assign(q.values.size(), 0.0);
  for (std::size_t w = 0; w < matrices.size(); ++w) {
    const Matrix own = product(transposed(matrices[w]), p);
    for (std::size_t i = 0; i < q.values.size(); ++i) q.values[i] += own.values[i];
    Matrix error = product(p, transposed(own));
    for (std::size_t i = 0; i < error.values.size(); ++i) error.values[i] = matrices[w].values[i] - error.values[i];
    gradient.states["error of worker " + std::to_string(w)] = shape.elements(error);
  }
  basis = q.values;
  gradient.gradient = shape.elements(product(p, transposed(q)));
}

}  // namespace compress
