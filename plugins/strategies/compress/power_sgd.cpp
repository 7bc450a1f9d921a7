#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compress.hpp"

namespace compress {

using namespace strata;

namespace {

/// Emits the exchange of one parameter.
class Reduction {
 public:
  Reduction(const PowerSgd& method, ReductionContext& context)
      : context_(context),
        parameter_(*context.parameter()),
        sides_(matrix_sides(parameter_)),
        rank_(method.rank),
        attributes_(matrix_attributes(parameter_)) {
    attributes_.set("rank", rank_);
    attributes_.set("parameter", parameter_.name);
  }

  void emit() {
    const BufferId error = context_.add_state({.name = kError, .is_of_worker = true});
    const BufferId basis = context_.add_state({.name = kBasis, .dims = basis_dims()});
    const std::int64_t left_size = rank_ * element_count(parameter_, sides_.rows);
    const std::int64_t right_size = rank_ * element_count(parameter_, sides_.columns);
    const BufferId matrix = add("matrix", context_.elements());
    const BufferId left = add("P", left_size);
    const BufferId orthonormal = add("orthonormal P", left_size);
    const BufferId own = add("own Q", right_size);
    const BufferId right = add("Q", right_size);
    op(kAddError, {context_.gradient(), error, context_.unit()}, {matrix});
    op(kLeft, {matrix, basis}, {left});
    context_.sum_over_pieces(left, "P");
    sum_over_workers(left, "P");
    op(kOrthonormal, {left}, {orthonormal});
    op(kRight, {matrix, orthonormal}, {own});
    context_.sum_over_pieces(own, "Q");
    context_.emit(weighted_sum(context_.label() + " Q", {{1, own}}, right));
    sum_over_workers(right, "Q");
    op(kProduct, {orthonormal, right, context_.unit()}, {context_.gradient()});
    context_.emit_after(context_.flat(kPowerStates, "compression states",
                                      {matrix, context_.scale(), orthonormal, own, right}, {error, basis},
                                      attributes_));
  }

 private:
  [[nodiscard]] std::vector<std::pair<Dim, std::int64_t>> basis_dims() const {
    std::vector<std::pair<Dim, std::int64_t>> dims{{"rank", rank_}};
    for (const Dim& dim : sides_.columns) dims.emplace_back(dim, element_count(parameter_, {dim}));
    return dims;
  }

  BufferId add(const std::string& name, std::int64_t elements) {
    return context_.add_flat(context_.label() + " " + name, context_.dtype(), elements);
  }

  void op(const char* name, std::vector<BufferId> operands, std::vector<BufferId> results) {
    context_.emit(context_.flat(name, name, std::move(operands), std::move(results), attributes_));
  }

  void sum_over_workers(BufferId buffer, const std::string& name) {
    const std::string label = context_.label() + " " + name + " all_reduce " + join(context_.axes(), "+");
    context_.emit({.name = label,
                   .work = Collective{.kind = CollectiveKind::all_reduce,
                                      .axes = context_.axes(),
                                      .id = context_.communication_id(label)},
                   .inputs = {buffer},
                   .outputs = {buffer}});
  }

  ReductionContext& context_;
  const ParameterDescription& parameter_;
  MatrixSides sides_;
  std::int64_t rank_;
  Attributes attributes_;
};

// --- the definition in plain code

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

std::int64_t element_count(const ParameterDescription& parameter, const Dims& dims) {
  std::int64_t count = 1;
  for (const Dim& dim : dims) {
    count *= parameter.shape.at(static_cast<std::size_t>(find_dim(parameter.dims, dim)));
  }
  return count;
}

bool shrinks(const PowerSgd& method, const ParameterDescription& parameter, std::int64_t piece) {
  const MatrixSides sides = matrix_sides(parameter);
  return method.rank * (element_count(parameter, sides.rows) + element_count(parameter, sides.columns)) < piece;
}

void emit_reduction(const PowerSgd& method, ReductionContext& context) { Reduction(method, context).emit(); }

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
