// The definition of SOAP, against code of its own: with the factors' powers orthonormalised by a Cholesky factor.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "stack_configuration.hpp"
#include "strata/optimizer.hpp"

namespace strata::testing {
namespace {

/// A matrix of rows.
using Rows = std::vector<std::vector<double>>;

Rows zeros(std::size_t rows, std::size_t columns) { return Rows(rows, std::vector<double>(columns)); }

Rows transposed(const Rows& x) {
  Rows y = zeros(x[0].size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x[0].size(); ++j) y[j][i] = x[i][j];
  }
  return y;
}

/// x · yᵀ
Rows products(const Rows& x, const Rows& y) {
  Rows z = zeros(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) {
      for (std::size_t k = 0; k < x[0].size(); ++k) z[i][j] += x[i][k] * y[j][k];
    }
  }
  return z;
}

/// The moving average with the decay 0.95 after another value.
void move(Rows& average, const Rows& value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    for (std::size_t j = 0; j < value[0].size(); ++j) average[i][j] = 0.95 * average[i][j] + 0.05 * value[i][j];
  }
}

/// One side of the matrix.
struct Side {
  explicit Side(std::size_t size) : factor(zeros(size, size)), basis(zeros(size, size)) {
    for (std::size_t i = 0; i < size; ++i) basis[i][i] = 1;
  }

  /// The rows of basis · (factor / |factor| + ridge), orthonormal: S = C Q, where C Cᵀ = S Sᵀ.
  void iterate(double ridge) {
    double squares = 0;
    for (const auto& row : factor) {
      for (const double each : row) squares += each * each;
    }
    Rows shifted = factor;
    for (std::size_t i = 0; i < factor.size(); ++i) {
      for (double& each : shifted[i]) each /= std::sqrt(squares);
      shifted[i][i] += ridge;
    }
    const Rows s = products(basis, shifted);
    Rows c = products(s, s);
    basis = s;
    for (std::size_t i = 0; i < c.size(); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        for (std::size_t k = 0; k < j; ++k) c[i][j] -= c[i][k] * c[j][k];
        c[i][j] = i == j ? std::sqrt(c[i][j]) : c[i][j] / c[j][j];
      }
      for (std::size_t column = 0; column < c.size(); ++column) {
        for (std::size_t k = 0; k < i; ++k) basis[i][column] -= c[i][k] * basis[k][column];
        basis[i][column] /= c[i][i];
      }
    }
  }

  Rows factor;
  Rows basis;
};

TEST(SoapDefinition, IsAdamInTheBasesOfAPowerIteration) {
  constexpr std::size_t kRows = 4;
  constexpr std::size_t kColumns = 3;
  const Shape shape = {kRows, kColumns};
  const ParameterDescription parameter{.name = "w", .dims = {"in", "out"}, .contracted = {"in"}, .shape = shape};
  BuiltPlugins plugins;
  const auto& factory = plugins.load<OptimizerFactory>("soap");
  const auto optimizer =
      factory.create(Options(factory.options(), {{"period", std::int64_t{2}}, {"ridge", 1e-2}, {"epsilon", 1e-3}}));
  std::map<std::string, std::vector<double>> states;
  for (const OptimizerState& state : optimizer->states(parameter)) {
    states[state.name].resize(state.dims ? (state.dims->front() == "in" ? kRows * kRows : kColumns * kColumns)
                                         : kRows * kColumns);
  }

  std::vector<double> values(kRows * kColumns, 1.0);
  Rows expected(kRows, std::vector<double>(kColumns, 1.0));
  Rows momentum = zeros(kRows, kColumns);
  Rows second = zeros(kRows, kColumns);
  Side inputs(kRows);
  Side outputs(kColumns);
  for (int step = 0; step < 5; ++step) {
    std::vector<double> gradient;
    Rows g = zeros(kRows, kColumns);
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      gradient.push_back(std::sin(static_cast<double>(i * i + 1) * (1.3 + step)));
      g[i / kColumns][i % kColumns] = gradient.back();
    }
    DefinedUpdate update{.parameter = parameter,
                         .shape = shape,
                         .values = values,
                         .gradient = gradient,
                         .states = states,
                         .learning_rate = 0.1,
                         .weight_decay = 0.01,
                         .step = step + 1,
                         .training_step = step};
    optimizer->define(update);

    move(momentum, g);
    move(inputs.factor, products(g, g));
    move(outputs.factor, products(transposed(g), transposed(g)));
    if (step % 2 == 0) {
      inputs.iterate(1e-2);
      outputs.iterate(1e-2);
    }
    const auto rotated = [&](const Rows& x) { return products(products(inputs.basis, transposed(x)), outputs.basis); };
    Rows squares = rotated(g);
    for (auto& row : squares) {
      for (double& each : row) each *= each;
    }
    move(second, squares);
    const double correction = 1 - std::pow(0.95, step + 1);
    Rows direction = rotated(momentum);
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kColumns; ++j) {
        direction[i][j] = direction[i][j] / correction / (std::sqrt(second[i][j] / correction) + 1e-3);
      }
    }
    direction = products(products(transposed(inputs.basis), transposed(direction)), transposed(outputs.basis));
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      double& value = expected[i / kColumns][i % kColumns];
      value -= 0.1 * (direction[i / kColumns][i % kColumns] + 0.01 * value);
      EXPECT_NEAR(values[i], value, 1e-12) << "element " << i << " after step " << step;
    }
  }
}

}  // namespace
}  // namespace strata::testing
