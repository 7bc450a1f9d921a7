#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compress.hpp"
#include "shared/matrices.hpp"

namespace compress {

using namespace strata;
using matrices::Matrix;
using matrices::multiply;
using matrices::transpose;

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

double column_length(const Matrix& a, std::size_t columns, std::size_t column) {
  double squares = 0;
  for (std::size_t i = column; i < a.size(); i += columns) squares += a[i] * a[i];
  return std::sqrt(squares);
}

/// Gram-Schmidt, twice for each column, as rounding demands.
void make_orthonormal(Matrix& a, std::size_t columns) {
  for (std::size_t k = 0; k < columns; ++k) {
    const double before = column_length(a, columns, k);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < k; ++j) {
        double dot = 0;
        for (std::size_t row = 0; row < a.size(); row += columns) dot += a[row + j] * a[row + k];
        for (std::size_t row = 0; row < a.size(); row += columns) a[row + k] -= dot * a[row + j];
      }
    }
    const double left = column_length(a, columns, k);
    const double factor = left <= kDependent * before ? 0 : 1 / left;
    for (std::size_t row = 0; row < a.size(); row += columns) a[row + k] *= factor;
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

bool shrinks(const PowerSgd& method, const ParameterDescription& parameter, std::int64_t piece, int /*workers*/) {
  const MatrixSides sides = matrix_sides(parameter);
  return method.rank * (element_count(parameter, sides.rows) + element_count(parameter, sides.columns)) < piece;
}

void emit_reduction(const PowerSgd& method, ReductionContext& context) { Reduction(method, context).emit(); }

void define_reduction(const PowerSgd& method, DefinedGradient& gradient) {
  const ParameterDescription& parameter = gradient.parameter;
  const MatrixSides sides = matrix_sides(parameter);
  const matrices::DefinedMatrices whole(parameter.dims, parameter.shape, {{}, sides.rows, sides.columns});
  const std::size_t rows = whole.rows();
  const std::size_t columns = whole.columns();
  const auto rank = static_cast<std::size_t>(method.rank);
  Matrix& q = gradient.states["basis"];
  q.resize(columns * rank);
  for (std::size_t k = 0; k < rank; ++k) {
    if (column_length(q, rank, k) > 0) continue;
    for (std::size_t j = 0; j < columns; ++j) {
      q[j * rank + k] = first_basis(parameter.name, static_cast<std::int64_t>(k * columns + j));
    }
  }
  std::vector<Matrix> sums;
  Matrix p(rows * rank);
  for (std::size_t w = 0; w < gradient.shares.size(); ++w) {
    std::vector<double> sum = gradient.shares[w];
    const std::vector<double>& error = gradient.states["error of worker " + std::to_string(w)];
    for (std::size_t i = 0; i < error.size(); ++i) sum[i] += error[i];
    sums.push_back(whole.split(sum).front());
    const Matrix own = multiply(sums.back(), q, rows, columns, rank);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] += own[i];
  }
  make_orthonormal(p, rank);
  q.assign(q.size(), 0.0);
  for (std::size_t w = 0; w < sums.size(); ++w) {
    const Matrix own = multiply(transpose(sums[w], rows, columns), p, columns, rows, rank);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] += own[i];
    const Matrix sent = multiply(p, transpose(own, columns, rank), rows, rank, columns);
    for (std::size_t i = 0; i < sent.size(); ++i) sums[w][i] -= sent[i];
    std::vector<double>& error = gradient.states["error of worker " + std::to_string(w)];
    error.resize(gradient.gradient.size());
    whole.join({sums[w]}, error);
  }
  whole.join({multiply(p, transpose(q, columns, rank), rows, rank, columns)}, gradient.gradient);
}

}  // namespace compress
