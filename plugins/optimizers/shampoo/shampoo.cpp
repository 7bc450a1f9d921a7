#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "shared/preconditioned.hpp"
#include "shared/square_matrix_op.hpp"
#include "strata/op.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace shampoo {
namespace {

using namespace strata;
using namespace preconditioned;

// Shampoo (Gupta, Koren, Singer, "Shampoo: Preconditioned Stochastic Tensor Optimization", ICML 2018). Of each matrix
// with the gradient G it keeps the moving averages L of G Gᵀ and R of Gᵀ G, and the momentum M. The direction is
// L^(-1/4) M R^(-1/4), scaled to the size of AdamW's updates, so factors of L and R cancel out.
//
// The inverse roots are computed every `period` steps (Anil et al., "Scalable Second Order Optimization for Deep
// Learning", 2020), by a coupled Newton iteration (Guo, Higham, "A Schur-Newton Method for the Matrix pth Root and its
// Inverse", 2006). X begins as I and M as the factor. T = (5 I - M) / 4, X T and T⁴ M are the next X and M, until M is
// I and X the root. The emitted iteration holds Y = X - I and E = I - M.

constexpr const char* kIdentityMinus = "identity_minus";

/// Root mean square of the elements of AdamW's updates (Liu et al., "Muon is Scalable for LLM Training", 2025).
constexpr double kUpdateSize = 0.2;

class Shampoo final : public PreconditionedOptimizer {
 public:
  static OptionSchema schema() {
    return options_with(option::integer("iterations", 20, 1, 100, "Iterations for each inverse root."), "inverse roots",
                        "the moving averages of products of gradients");
  }

  explicit Shampoo(const Options& options)
      : PreconditionedOptimizer(options, {"input_factor", "input_root"}, {"output_factor", "output_root"}),
        iterations_(options.integer("iterations")) {}

 protected:
  [[nodiscard]] NamedBuffer emit_direction(EmittedMatrices& matrices, const NamedBuffer& gradient) const override {
    NamedBuffer direction = matrices.moved(kMomentum, gradient, settings().momentum);
    for (const auto& [side, dims] : matrices.sides()) {
      const NamedBuffer root = matrices.derived(side, dims, gradient,
                                                [&, of = dims](const NamedBuffer& factor, const NamedBuffer& /*last*/) {
                                                  return inverse_root(matrices, factor, of);
                                                });
      direction = matrices.applied(root, direction, dims);
    }
    return matrices.times(kUpdateSize * std::sqrt(matrices.elements()), matrices.normalized(direction));
  }

  [[nodiscard]] Matrix define_direction(DefinedMatrix& matrix) const override {
    const Matrix& momentum = moved(matrix, kMomentum, matrix.gradient, settings().momentum);
    const auto [left, right] =
        derived(matrix, settings(),
                [this](const Matrix& factor, const Matrix&, std::size_t size) { return inverse_root(factor, size); });
    const auto [m, n] = std::pair{matrix.rows, matrix.columns};
    Matrix direction = multiply(multiply(left, momentum, m, m, n), right, m, n, n);
    normalize(direction);
    for (double& each : direction) each *= kUpdateSize * std::sqrt(static_cast<double>(direction.size()));
    return direction;
  }

 private:
  /// The inverse fourth root of a factor, up to a number, minus the identity.
  NamedBuffer inverse_root(EmittedMatrices& on, const NamedBuffer& factor, const Dims& side) const {
    NamedBuffer e = on.emit(kIdentityMinus, {on.normalized(factor)},
                            {{"ridge", settings().ridge}, {"side", static_cast<std::int64_t>(side.size())}});
    NamedBuffer y = on.times(0.25, e);
    for (std::int64_t i = 1; i < iterations_; ++i) {
      const NamedBuffer u = on.sum(0.5, e, 0.0625, on.square(e, e, side));  // T² - I
      const NamedBuffer w = on.sum(2, u, 1, on.square(u, u, side));         // T⁴ - I
      e = on.sum(1, on.sum(1, e, -1, w), 1, on.square(w, e, side));
      y = on.sum(1, on.sum(1, y, 0.25, e), 0.25, on.square(y, e, side));
    }
    return y;
  }

  [[nodiscard]] Matrix inverse_root(Matrix m, std::size_t size) const {
    normalize(m);
    add_to_diagonal(m, size, settings().ridge);
    Matrix x(m.size());
    add_to_diagonal(x, size, 1);
    for (std::int64_t k = 0; k < iterations_; ++k) {
      Matrix t = m;
      for (double& each : t) each /= -4;
      add_to_diagonal(t, size, 1.25);
      const Matrix t2 = multiply(t, t, size, size, size);
      x = multiply(x, t, size, size, size);
      m = multiply(multiply(t2, t2, size, size, size), m, size, size, size);
    }
    return x;
  }

  std::int64_t iterations_;
};

reference::Work prepare_reference(const OpInstance& op) {
  return [size = side_of(op), ridge = op.attributes.number("ridge")](const reference::Launch& launch) {
    for (std::int64_t i = 0; i < reference::elements(launch.op().results[0]); ++i) {
      const bool is_diagonal = i / size % size == i % size;
      launch.result(0).set(i, (is_diagonal ? 1 - ridge : 0) - launch.operand(0)[i]);
    }
  };
}

PreparedKernel prepare_host(const OpInstance& op, const KernelEnvironment& environment) {
  const std::int64_t size = side_of(op);
  const auto diagonal = static_cast<float>(1 - op.attributes.number("ridge"));
  return {[=, rows = kernels::elements(op.results[0]) / size,
           threads = environment.threads()](const KernelArguments& arguments) {
    const auto* const x = kernels::in<float>(arguments, 0);
    auto* const y = kernels::out<float>(arguments, 0);
    kernels::parallel_ranges(threads, rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t i = row * size; i < (row + 1) * size; ++i) y[i] = -x[i];
        y[row * size + row % size] += diagonal;
      }
    });
  }};
}

class ShampooFactory final : public FactoryOf<OptimizerFactory, Shampoo> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    registration.add(std::make_unique<SquareMatrixOp>(
        kIdentityMinus,
        "x [… s s'] -> (1 - ridge) I - x (attributes ridge, and side: the number of dims of s and of s'): the first "
        "step of an iteration for inverse roots of square matrices."));
    registration.add(reference::kernel({kIdentityMinus, "r", "r", prepare_reference}));
    registration.add({.op = kIdentityMinus, .signature = {"f", "f"}, .prepare = prepare_host});
  }
};

}  // namespace
}  // namespace shampoo

STRATA_PLUGIN(optimizer, "shampoo", "0.1.0", "Apache-2.0",
              "Shampoo: momentum, preconditioned by the gradients' second moments over rows and columns (Gupta et al., "
              "2018). For matrices.",
              shampoo::ShampooFactory);
