#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels.hpp"
#include "shared/preconditioned.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"

namespace soap {
namespace {

using namespace strata;
using namespace preconditioned;

// SOAP (Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam", 2024): Adam in the eigenbases of Shampoo's
// factors. Of each matrix with the gradient G it keeps the moving averages L of G Gᵀ and R of Gᵀ G, the momentum M, and
// the second moment V of the rotated gradient P G Qᵀ. The direction is Pᵀ N Q, where N is Adam's quotient of P M Qᵀ
// and √V.
//
// The rows of P and Q are approximate eigenvectors of L and R. Every `period` steps a power iteration makes the next P:
// it orthonormalises the rows of P (L / |L| + ridge · I).

constexpr const char* kSecondMoment = "second_moment";

class Soap final : public PreconditionedOptimizer {
 public:
  static OptionSchema schema() {
    return options_with(option::number("epsilon", 1e-8, 1e-30, 1, "Added to the root of the second moment."),
                        "eigenvectors", "the second moment and of the moving averages of products of gradients");
  }

  explicit Soap(const Options& options)
      : PreconditionedOptimizer(options, {"input_factor", "input_basis"}, {"output_factor", "output_basis"}),
        epsilon_(options.number("epsilon")) {}

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    std::vector<OptimizerState> states = PreconditionedOptimizer::states(parameter);
    states.push_back({.name = kSecondMoment, .is_of_whole = true});
    return states;
  }

 protected:
  [[nodiscard]] NamedBuffer emit_direction(EmittedMatrices& matrices, const NamedBuffer& gradient) const override {
    NamedBuffer rotated = gradient;
    NamedBuffer direction = matrices.moved(kMomentum, gradient, settings().momentum);
    std::vector<std::pair<NamedBuffer, Dims>> bases;
    for (const auto& [side, dims] : matrices.sides()) {
      const auto next = [&, of = dims](const NamedBuffer& factor, const NamedBuffer& last) {
        return next_basis(matrices, factor, last, of);
      };
      bases.emplace_back(matrices.derived(side, dims, gradient, next), dims);
      rotated = matrices.applied(bases.back().first, rotated, dims);
      direction = matrices.applied(bases.back().first, direction, dims);
    }
    const NamedBuffer second =
        matrices.moved(kSecondMoment, matrices.emit("multiply", {rotated, rotated}, {}), settings().decay);
    direction = matrices.emit(kAdamDirection, {direction, second},
                              {{"beta1", settings().momentum}, {"beta2", settings().decay}, {"epsilon", epsilon_}});
    for (const auto& [basis, dims] : bases) direction = matrices.applied(basis, direction, dims, true);
    return direction;
  }

  [[nodiscard]] Matrix define_direction(DefinedMatrix& matrix) const override {
    const Matrix& momentum = moved(matrix, kMomentum, matrix.gradient, settings().momentum);
    const auto [p, q] = derived(matrix, settings(), [this](const Matrix& factor, const Matrix& last, std::size_t size) {
      return next_basis(factor, last, size);
    });
    const auto [m, n] = std::pair{matrix.rows, matrix.columns};
    const Matrix q_transposed = transpose(q, n, n);
    Matrix squares = multiply(multiply(p, matrix.gradient, m, m, n), q_transposed, m, n, n);
    for (double& each : squares) each *= each;
    const Matrix& second = moved(matrix, kSecondMoment, squares, settings().decay);
    Matrix direction = multiply(multiply(p, momentum, m, m, n), q_transposed, m, n, n);
    const auto t = static_cast<double>(matrix.update.step);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      const double unbiased_second = second[i] / (1 - std::pow(settings().decay, t));
      direction[i] /= (1 - std::pow(settings().momentum, t)) * (std::sqrt(unbiased_second) + epsilon_);
    }
    return multiply(multiply(transpose(p, m, m), direction, m, m, n), q, m, n, n);
  }

 private:
  /// The next basis of a side, less the identity. `last`: the present one, less the identity.
  [[nodiscard]] NamedBuffer next_basis(EmittedMatrices& on, const NamedBuffer& factor, const NamedBuffer& last,
                                       const Dims& side) const {
    const NamedBuffer of_norm_1 = on.normalized(factor);
    const NamedBuffer powers = on.sum(1, of_norm_1, 1, on.square(last, of_norm_1, side));
    return on.emit(kOrthonormalRows, {on.sum(1, powers, settings().ridge, last)},
                   {{"ridge", settings().ridge}, {"side", static_cast<std::int64_t>(side.size())}});
  }

  [[nodiscard]] Matrix next_basis(Matrix factor, const Matrix& last, std::size_t size) const {
    normalize(factor);
    add_to_diagonal(factor, size, settings().ridge);
    Matrix basis = multiply(last, factor, size, size, size);
    for (std::size_t row = 0; row < size; ++row) {
      double* const x = basis.data() + row * size;
      // One pass leaves rounding errors times the condition number of the matrix.
      for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t before = 0; before < row; ++before) {
          const double* const y = basis.data() + before * size;
          const double product = std::inner_product(x, x + size, y, 0.0);
          for (std::size_t i = 0; i < size; ++i) x[i] -= product * y[i];
        }
      }
      const double norm = std::sqrt(std::inner_product(x, x + size, x, 0.0));
      for (std::size_t i = 0; i < size; ++i) x[i] /= norm;
    }
    return basis;
  }

  double epsilon_;
};

class SoapFactory final : public FactoryOf<OptimizerFactory, Soap> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override { provide_ops(registration); }
};

}  // namespace
}  // namespace soap

STRATA_PLUGIN(
    optimizer, "soap", "0.1.0", "Apache-2.0",
    "SOAP: Adam in the eigenbases of the gradients' second moments over rows and columns (Vyas et al., 2024). "
    "For matrices.",
    soap::SoapFactory);
