#include "newton_schulz.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muon {

using namespace strata;

MatrixView view(const ParameterDescription& parameter, const std::vector<std::string>& split) {
  MatrixView view;
  for (const Dim& dim : parameter.dims) {
    if (std::find(split.begin(), split.end(), dim) != split.end()) {
      view.matrices.push_back(dim);
    } else if (find_dim(parameter.contracted, dim) >= 0) {
      view.inputs.push_back(dim);
    } else {
      view.outputs.push_back(dim);
    }
  }
  return view;
}

std::optional<std::string> fault(const ParameterDescription& parameter, const MatrixView& view) {
  if (parameter.contracted.empty()) return "no matrix product reads it";
  if (!view.inputs.empty() && !view.outputs.empty()) return std::nullopt;
  std::string found = "its dimensions [" + join(parameter.dims) + "] have no ";
  found += view.inputs.empty() ? "input" : "output";
  found += " side";
  if (!view.matrices.empty()) found += " besides [" + join(view.matrices) + "], by which it is split";
  return found;
}

namespace {

/// Keeps the quotient finite for a direction of zeros.
constexpr double kEpsilon = 1e-7;

/// Emits the ops of the iteration.
class Iteration {
 public:
  Iteration(WholeContext& context, const NamedBuffer& direction, const MatrixView& view)
      : context_(context), dims_(direction.dims), matrices_(view.matrices) {
    // The iteration needs the products along one side. The shorter side makes the smaller ones.
    const bool inputs = size(view.inputs) < size(view.outputs) ||
                        (size(view.inputs) == size(view.outputs) && view.inputs.size() <= view.outputs.size());
    side_ = inputs ? view.inputs : view.outputs;
  }

  /// Divides each matrix by its Frobenius norm, so that no singular value exceeds 1.
  NamedBuffer normalize(const NamedBuffer& x) {
    const DType type = context_.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const NamedBuffer squares = context_.emit(
        "linear", {x, x}, matrices_, {{"result", join(matrices_)}, {"dtype", std::string(to_string(type))}}, type);
    return context_.emit("normalize", {x, squares}, dims_, {{"epsilon", kEpsilon}});
  }

  NamedBuffer step(const NamedBuffer& x, const NewtonSchulz& by, double scale) {
    const NamedBuffer gram = product(x, {x.buffer, renamed(dims_, 1)}, square(1));
    // Both factors are symmetric, so only the names of the dims matter.
    const NamedBuffer gram_squared = product(gram, {gram.buffer, shifted_square()}, square(2));
    const NamedBuffer sum = context_.emit("weighted_sum", {gram, {gram_squared.buffer, gram.dims}}, gram.dims,
                                          {{"factor0", by.b}, {"factor1", by.c}});
    const NamedBuffer turned = product(sum, {x.buffer, renamed(dims_, 1)}, dims_);
    return context_.emit("weighted_sum", {x, turned}, dims_, {{"factor0", by.a * scale}, {"factor1", scale}});
  }

 private:
  [[nodiscard]] std::int64_t size(const Dims& dims) const {
    std::int64_t product = 1;
    for (const Dim& dim : dims) product *= context_.size(dim);
    return product;
  }

  /// `dims` with another name for the dims of the side.
  Dims renamed(const Dims& dims, int number) {
    Dims names;
    for (const Dim& dim : dims) names.push_back(find_dim(side_, dim) >= 0 ? context_.rename(dim, number) : dim);
    return names;
  }

  /// [matrices, side, side under another name]
  Dims square(int number) {
    Dims dims = matrices_;
    dims.insert(dims.end(), side_.begin(), side_.end());
    const Dims other = renamed(side_, number);
    dims.insert(dims.end(), other.begin(), other.end());
    return dims;
  }

  /// The dims of the second factor of the square: [matrices, side~1, side~2].
  Dims shifted_square() {
    Dims dims = matrices_;
    for (const int number : {1, 2}) {
      const Dims names = renamed(side_, number);
      dims.insert(dims.end(), names.begin(), names.end());
    }
    return dims;
  }

  NamedBuffer product(const NamedBuffer& x, const NamedBuffer& y, const Dims& result) {
    return context_.emit("linear", {x, y}, result, {{"result", join(result)}});
  }

  WholeContext& context_;
  Dims dims_;
  Dims matrices_;
  Dims side_;
};

/// x · y for square matrices of `size` rows, or with `columns` for a wide second factor.
std::vector<double> multiply(const std::vector<double>& x, const std::vector<double>& y, std::size_t rows,
                             std::size_t depth, std::size_t columns) {
  std::vector<double> product(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t column = 0; column < columns; ++column) {
        product[row * columns + column] += x[row * depth + k] * y[k * columns + column];
      }
    }
  }
  return product;
}

std::vector<double> transpose(const std::vector<double>& x, std::size_t rows, std::size_t columns) {
  std::vector<double> result(x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) result[column * rows + row] = x[row * columns + column];
  }
  return result;
}

}  // namespace

NamedBuffer emit(WholeContext& context, const NamedBuffer& direction, const MatrixView& view,
                 const NewtonSchulz& iteration) {
  Iteration emitted(context, direction, view);
  NamedBuffer x = emitted.normalize(direction);
  for (std::int64_t i = 0; i < iteration.steps; ++i) {
    x = emitted.step(x, iteration, i + 1 == iteration.steps ? iteration.scale : 1.0);
  }
  return x;
}

void iterate(std::vector<double>& matrix, std::int64_t rows, const NewtonSchulz& iteration) {
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t width = matrix.size() / height;
  double squares = 0;
  for (const double each : matrix) squares += each * each;
  for (double& each : matrix) each /= std::sqrt(squares) + kEpsilon;
  for (std::int64_t i = 0; i < iteration.steps; ++i) {
    const std::vector<double> gram = multiply(matrix, transpose(matrix, height, width), height, width, height);
    std::vector<double> sum = multiply(gram, gram, height, height, height);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = iteration.b * gram[k] + iteration.c * sum[k];
    const std::vector<double> turned = multiply(sum, matrix, height, height, width);
    for (std::size_t k = 0; k < matrix.size(); ++k) matrix[k] = iteration.a * matrix[k] + turned[k];
  }
  for (double& each : matrix) each *= iteration.scale;
}

}  // namespace muon
