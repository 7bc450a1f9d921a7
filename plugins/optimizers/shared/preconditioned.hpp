#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/matrices.hpp"
#include "strata/optimizer.hpp"
#include "strata/options.hpp"

/// \file
/// Optimizers that precondition each matrix by second moments over its rows and over its columns.
///
/// Of each matrix with the gradient G they keep the momentum M and two factors: moving averages L of G Gᵀ and R of Gᵀ
/// G. Every `period` steps they derive a square matrix from each factor, such as an inverse root. It is kept as its
/// difference from the identity, which is zero before the first step.

namespace preconditioned {

using namespace strata;
using namespace matrices;

constexpr const char* kMomentum = "momentum";
/// Keeps quotients by norms finite. Squares of smaller norms are zero in f32.
constexpr double kEpsilon = 1e-18;

/// The names of the states of one side of a matrix.
struct Side {
  const char* factor;
  /// The matrix that is derived from the factor, less the identity.
  const char* derived;
};

struct Settings {
  Side inputs;
  Side outputs;
  double momentum = 0;
  double decay = 0;
  std::int64_t period = 1;
  double ridge = 0;
};

/// Options of all these optimizers, and one `more`. `derived`: what they derive from a factor. `averages`: what decays.
inline OptionSchema options_with(OptionSpecification more, const std::string& derived, const std::string& averages) {
  return {
      option::number("momentum", 0.95, 0, 0.999999, "Decay rate of the moving average of gradients."),
      option::number("decay", 0.95, 0, 0.999999, "Decay rate of " + averages + "."),
      option::integer("period", 10, 1, 1000000, "Steps from one computation of the " + derived + " to the next."),
      std::move(more),
      option::number("ridge", 1e-5, 1e-12, 1, "What is added to the diagonals of factors, as a share of their norm."),
      option::words("split", "Dimensions whose indices are matrices of their own, such as [\"heads\"].")};
}

/// Emits ops on the matrices of one whole parameter, in f32 (f64 in f64 runs).
class EmittedMatrices {
 public:
  EmittedMatrices(WholeContext& context, View view, const Settings& settings)
      : context_(context),
        view_(std::move(view)),
        settings_(settings),
        type_(context.dtype() == DType::f64 ? DType::f64 : DType::f32) {}

  [[nodiscard]] std::vector<std::pair<Side, Dims>> sides() const {
    return {{settings_.inputs, view_.inputs}, {settings_.outputs, view_.outputs}};
  }
  /// Elements of one matrix.
  [[nodiscard]] double elements() const { return size_of(context_, view_.inputs) * size_of(context_, view_.outputs); }

  /// Converts the gradient to the type of all other ops.
  NamedBuffer widened(const NamedBuffer& x) { return context_.dtype() == type_ ? x : cast(x, type_); }
  /// Converts a direction to the type of the parameter's gradient.
  NamedBuffer narrowed(const NamedBuffer& x) { return context_.dtype() == type_ ? x : cast(x, context_.dtype()); }

  /// Moves a moving average towards `value`. \return the average.
  NamedBuffer moved(const char* state, const NamedBuffer& value, double decay) {
    const NamedBuffer average = context_.state(state);
    context_.change_state(state, sum(1 - decay, value, decay - 1, average));
    return average;
  }

  /// Moves the factor of a side. Every `period` steps, the result of `derive(factor, state)` replaces the state, which
  /// is the matrix that was derived last, less the identity. \return the state.
  template <class Derive>
  NamedBuffer derived(const Side& side, const Dims& dims, const NamedBuffer& gradient, const Derive& derive) {
    const NamedBuffer products = product(gradient, renamed(gradient, dims), context_.state(side.factor).dims);
    const NamedBuffer factor = moved(side.factor, products, settings_.decay);
    const NamedBuffer state = context_.state(side.derived);
    context_.every(settings_.period,
                   [&] { context_.change_state(side.derived, sum(1, derive(factor, state), -1, state)); });
    return state;
  }

  /// (I + `matrix`) x, or (I + `matrix`)ᵀ x, along the dims of a side.
  NamedBuffer applied(const NamedBuffer& matrix, const NamedBuffer& x, const Dims& side, bool is_transposed = false) {
    const NamedBuffer change =
        is_transposed ? product(matrix, x, renamed(x, side).dims) : product(matrix, renamed(x, side), x.dims);
    return sum(1, x, 1, {change.buffer, x.dims});
  }

  /// x · yᵀ of two square matrices of a side.
  NamedBuffer square(const NamedBuffer& x, const NamedBuffer& y, const Dims& side) {
    Dims left = view_.matrices;
    Dims right = view_.matrices;
    for (const int number : {0, 2}) append(left, side, number);
    for (const int number : {1, 2}) append(right, side, number);
    return product({x.buffer, left}, {y.buffer, right}, x.dims);
  }

  /// Divides each matrix by its norm.
  NamedBuffer normalized(const NamedBuffer& x) {
    const NamedBuffer squares = product(x, x, view_.matrices);
    return emit("normalize", {x, squares}, {{"epsilon", kEpsilon}});
  }

  NamedBuffer sum(double a, const NamedBuffer& x, double b, const NamedBuffer& y) {
    return emit("weighted_sum", {x, y}, {{"factor0", a}, {"factor1", b}});
  }
  NamedBuffer times(double factor, const NamedBuffer& x) { return emit("weighted_sum", {x}, {{"factor0", factor}}); }

  /// Emits an op whose result has the dims of its first operand.
  NamedBuffer emit(const std::string& op, const std::vector<NamedBuffer>& operands, Attributes attributes) {
    return context_.emit(op, operands, operands.front().dims, std::move(attributes), type_);
  }

 private:
  NamedBuffer product(const NamedBuffer& x, const NamedBuffer& y, const Dims& result) {
    return context_.emit("linear", {x, y}, result, {{"result", join(result)}}, type_);
  }
  NamedBuffer cast(const NamedBuffer& x, DType type) {
    return context_.emit("cast", {x}, x.dims, {{"dtype", std::string(to_string(type))}}, type);
  }

  /// `x` with the names of the second side of a factor instead of the dims of the first.
  NamedBuffer renamed(NamedBuffer x, const Dims& side) {
    for (Dim& dim : x.dims) {
      if (contains(side, dim)) dim = context_.rename(dim, 1);
    }
    return x;
  }
  void append(Dims& dims, const Dims& side, int number) {
    for (const Dim& dim : side) dims.push_back(number == 0 ? dim : context_.rename(dim, number));
  }

  WholeContext& context_;
  View view_;
  const Settings& settings_;
  DType type_;
};

// For definitions.

/// One step of one matrix.
struct DefinedMatrix {
  const DefinedUpdate& update;
  std::size_t rows = 0;
  std::size_t columns = 0;
  Matrix gradient = {};
  std::map<std::string, Matrix> states = {};
};

/// `count` matrices that follow one another.
inline std::vector<Matrix> slices(const std::vector<double>& values, std::size_t count) {
  std::vector<Matrix> each;
  const auto size = static_cast<std::ptrdiff_t>(values.size() / count);
  for (auto at = values.begin(); at != values.end(); at += size) each.emplace_back(at, at + size);
  return each;
}

/// The inverse of slices().
inline void join_slices(const std::vector<Matrix>& each, std::vector<double>& values) {
  values.clear();
  for (const Matrix& matrix : each) values.insert(values.end(), matrix.begin(), matrix.end());
}

inline void normalize(Matrix& matrix) {
  double squares = 0;
  for (const double each : matrix) squares += each * each;
  for (double& each : matrix) each /= std::sqrt(squares) + kEpsilon;
}

inline void add_to_diagonal(Matrix& matrix, std::size_t size, double value) {
  for (std::size_t i = 0; i < size; ++i) matrix[i * (size + 1)] += value;
}

/// Moves a moving average towards `value`. \return the average.
inline const Matrix& moved(DefinedMatrix& matrix, const char* state, const Matrix& value, double decay) {
  Matrix& average = matrix.states.at(state);
  for (std::size_t i = 0; i < value.size(); ++i) average[i] += (1 - decay) * (value[i] - average[i]);
  return average;
}

/// The definition of EmittedMatrices::derived for both sides. `derive(factor, last, size)` derives a matrix from a
/// factor and from the matrix that was derived last.
template <class Derive>
std::pair<Matrix, Matrix> derived(DefinedMatrix& matrix, const Settings& settings, const Derive& derive) {
  const auto of_side = [&](const Side& side, const Matrix& products, std::size_t size) {
    const Matrix& factor = moved(matrix, side.factor, products, settings.decay);
    Matrix& state = matrix.states.at(side.derived);
    Matrix result = state;
    add_to_diagonal(result, size, 1);
    if (!matrix.update.is_every(settings.period)) return result;
    state = result = derive(factor, result, size);
    add_to_diagonal(state, size, -1);
    return result;
  };
  const auto [m, n] = std::pair{matrix.rows, matrix.columns};
  const Matrix transposed = transpose(matrix.gradient, m, n);
  return {of_side(settings.inputs, multiply(matrix.gradient, transposed, m, n, m), m),
          of_side(settings.outputs, multiply(transposed, matrix.gradient, n, m, n), n)};
}

/// What these optimizers have in common: the states, and an update along a direction of each matrix.
class PreconditionedOptimizer : public Optimizer {
 public:
  PreconditionedOptimizer(const Options& options, const Side& inputs, const Side& outputs)
      : settings_{inputs,
                  outputs,
                  options.number("momentum"),
                  options.number("decay"),
                  options.integer("period"),
                  options.number("ridge")},
        split_(options.words("split")) {}

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    const View sides = view(parameter, split_);
    std::vector<OptimizerState> states{{.name = kMomentum, .is_of_whole = true}};
    for (const auto& [side, dims] : {std::pair{settings_.inputs, sides.inputs}, {settings_.outputs, sides.outputs}}) {
      Dims square = sides.matrices;
      for (int i = 0; i < 2; ++i) square.insert(square.end(), dims.begin(), dims.end());
      states.push_back({side.factor, square, true});
      states.push_back({side.derived, square, true});
    }
    return states;
  }
  [[nodiscard]] bool wants_own_bucket() const override { return true; }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    return fault(parameter, view(parameter, split_));
  }

  void update(UpdateContext& context) const override {
    const View sides = view(context.parameter(), split_);
    const BufferId gradient = context.direction("scaled_gradient", {});
    const BufferId direction =
        context.on_whole(gradient, sides.matrices, [=, this](WholeContext& whole, const NamedBuffer& of_whole) {
          EmittedMatrices matrices(whole, sides, settings_);
          return matrices.narrowed(emit_direction(matrices, matrices.widened(of_whole)));
        });
    context.update("sgd_update", {}, UpdateOperands{.direction = direction});
  }

  void define(DefinedUpdate& update) const override {
    const DefinedMatrices whole(update.parameter.dims, update.shape, view(update.parameter, split_));
    std::vector<DefinedMatrix> each;
    for (Matrix& gradient : whole.split(update.gradient)) {
      each.push_back({update, whole.rows(), whole.columns(), std::move(gradient), {}});
    }
    const std::vector<OptimizerState> all = states(update.parameter);
    for (const OptimizerState& state : all) {
      const std::vector<double>& values = update.states.at(state.name);
      const std::vector<Matrix> parts = state.dims ? slices(values, each.size()) : whole.split(values);
      for (std::size_t i = 0; i < each.size(); ++i) each[i].states[state.name] = parts[i];
    }
    std::vector<Matrix> directions;
    for (DefinedMatrix& matrix : each) directions.push_back(define_direction(matrix));
    for (const OptimizerState& state : all) {
      std::vector<Matrix> parts;
      for (const DefinedMatrix& matrix : each) parts.push_back(matrix.states.at(state.name));
      std::vector<double>& values = update.states.at(state.name);
      if (state.dims) {
        join_slices(parts, values);
      } else {
        whole.join(parts, values);
      }
    }
    std::vector<double> direction(update.values.size());
    whole.join(directions, direction);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      update.values[i] -= update.learning_rate * (direction[i] + update.weight_decay * update.values[i]);
    }
  }

 protected:
  /// Emits the direction of the matrices of a parameter.
  [[nodiscard]] virtual NamedBuffer emit_direction(EmittedMatrices& matrices, const NamedBuffer& gradient) const = 0;
  /// Defines the direction of one matrix.
  [[nodiscard]] virtual Matrix define_direction(DefinedMatrix& matrix) const = 0;
  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  std::vector<std::string> split_;
};

}  // namespace preconditioned
