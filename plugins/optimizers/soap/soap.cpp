#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "shared/dot.hpp"
#include "shared/preconditioned.hpp"
#include "shared/square_matrix_op.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/update_kernel.hpp"

namespace soap {
namespace {

using namespace strata;
using namespace preconditioned;
using plugins::dot;

// SOAP (Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam", 2024): Adam in the eigenbases of Shampoo's
// factors. Of each matrix with the gradient G it keeps the moving averages L of G Gᵀ and R of Gᵀ G, the momentum M, and
// the second moment V of the rotated gradient P G Qᵀ. The direction is Pᵀ N Q, where N is Adam's quotient of P M Qᵀ
// and √V.
//
// The rows of P and Q are approximate eigenvectors of L and R. Every `period` steps a power iteration makes the next P:
// it orthonormalises the rows of P (L / |L| + ridge · I).

constexpr const char* kSecondMoment = "second_moment";

/// result = m / (1 - beta1^t) / (√(v / (1 - beta2^t)) + epsilon)
constexpr const char* kAdamDirection = "adam_direction";
/// result = Q - I, where Q has the rows of x + ridge · I, orthonormalised one after another
constexpr const char* kOrthonormalRows = "orthonormal_rows";

class AdamDirection final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kAdamDirection; }
  [[nodiscard]] std::string documentation() const override {
    return "m, v -> m / (1 - beta1^t) / (√(v / (1 - beta2^t)) + epsilon) in update t (attributes beta1, beta2, "
           "epsilon): Adam's direction of two moments.";
  }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
};

/// Adam's quotient in one step.
template <class T>
class Quotient {
 public:
  Quotient(const OpInstance& op, const StepContext& step) : epsilon_(static_cast<T>(op.attributes.number("epsilon"))) {
    const double t = update_step(op, step).updates;
    first_ = static_cast<T>(1 / (1 - std::pow(op.attributes.number("beta1"), t)));
    second_ = static_cast<T>(1 / (1 - std::pow(op.attributes.number("beta2"), t)));
  }
  [[nodiscard]] T operator()(T m, T v) const { return m * first_ / (std::sqrt(v * second_) + epsilon_); }

 private:
  T epsilon_;
  T first_;
  T second_;
};

reference::Work prepare_reference_direction(const OpInstance& /*op*/) {
  return [](const reference::Launch& launch) {
    const Quotient<double> quotient(launch.op(), launch.context());
    for (std::int64_t i = 0; i < reference::elements(launch.op().results[0]); ++i) {
      launch.result(0).set(i, quotient(launch.operand(0)[i], launch.operand(1)[i]));
    }
  };
}

PreparedKernel prepare_direction(const OpInstance& op, const KernelEnvironment& environment) {
  return {[op, threads = environment.threads()](const KernelArguments& arguments) {
    const auto* const m = kernels::in<float>(arguments, 0);
    const auto* const v = kernels::in<float>(arguments, 1);
    auto* const y = kernels::out<float>(arguments, 0);
    const Quotient<float> quotient(op, arguments.context);
    kernels::parallel_ranges(threads, kernels::elements(op.results[0]), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = quotient(m[i], v[i]);
    });
  }};
}

/// Makes rows begin to end of a matrix orthogonal to the row `unit`.
template <class T>
STRATA_FASTEST_CLONE void remove_row(const T* unit, T* matrix, std::int64_t begin, std::int64_t end,
                                     std::int64_t size) {
  for (std::int64_t row = begin; row < end; ++row) {
    T* const x = matrix + row * size;
    const T product = dot(unit, x, size);
    for (std::int64_t i = 0; i < size; ++i) x[i] -= product * unit[i];
  }
}

/// Orthonormalises the rows of a square matrix (modified Gram-Schmidt). One pass leaves rounding errors times the
/// condition number of the matrix.
template <class T>
void orthonormalize(T* matrix, std::int64_t size, int threads) {
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t row = 0; row < size; ++row) {
      T* const unit = matrix + row * size;
      const T norm = std::sqrt(dot(unit, unit, size));
      for (std::int64_t i = 0; i < size; ++i) unit[i] /= norm;
      const auto remove = [=](std::int64_t begin, std::int64_t end) {
        remove_row(unit, matrix, row + 1 + begin, row + 1 + end, size);
      };
      kernels::parallel_ranges(threads, size - row - 1, remove, size);
    }
  }
}

/// Makes Q - I of each matrix x.
template <class T>
void make_bases(T* x, std::int64_t elements, std::int64_t size, double ridge, int threads) {
  for (std::int64_t at = 0; at < elements; at += size * size) {
    T* const matrix = x + at;
    for (std::int64_t i = 0; i < size; ++i) matrix[i * (size + 1)] += static_cast<T>(ridge);
    orthonormalize(matrix, size, threads);
    for (std::int64_t i = 0; i < size; ++i) matrix[i * (size + 1)] -= 1;
  }
}

reference::Work prepare_reference_rows(const OpInstance& op) {
  return [size = side_of(op), ridge = op.attributes.number("ridge")](const reference::Launch& launch) {
    std::vector<double> x(static_cast<std::size_t>(reference::elements(launch.op().results[0])));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = launch.operand(0)[static_cast<std::int64_t>(i)];
    make_bases(x.data(), static_cast<std::int64_t>(x.size()), size, ridge, 1);
    for (std::size_t i = 0; i < x.size(); ++i) launch.result(0).set(static_cast<std::int64_t>(i), x[i]);
  };
}

PreparedKernel prepare_rows(const OpInstance& op, const KernelEnvironment& environment) {
  return {[elements = kernels::elements(op.results[0]), size = side_of(op), ridge = op.attributes.number("ridge"),
           threads = environment.threads()](const KernelArguments& arguments) {
    auto* const y = kernels::out<float>(arguments, 0);
    std::copy_n(kernels::in<float>(arguments, 0), elements, y);
    make_bases(y, elements, size, ridge, threads);
  }};
}

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
  void provide(Registration& registration, const Options& /*options*/) const override {
    registration.add(std::make_unique<AdamDirection>());
    registration.add(reference::kernel({kAdamDirection, "rr", "r", prepare_reference_direction}));
    registration.add({.op = kAdamDirection, .signature = {"ff", "f"}, .prepare = prepare_direction});
    registration.add(std::make_unique<SquareMatrixOp>(
        kOrthonormalRows,
        "x [… s s'] -> Q - I (attributes ridge, and side: the number of dims of s and of s'). The rows of Q are those "
        "of "
        "x + ridge I, orthonormalised one after another (modified Gram-Schmidt, twice)."));
    registration.add(reference::kernel({kOrthonormalRows, "r", "r", prepare_reference_rows}));
    registration.add({.op = kOrthonormalRows, .signature = {"f", "f"}, .prepare = prepare_rows});
  }
};

}  // namespace
}  // namespace soap

STRATA_PLUGIN(
    optimizer, "soap", "0.1.0", "Apache-2.0",
    "SOAP: Adam in the eigenbases of the gradients' second moments over rows and columns (Vyas et al., 2024). "
    "For matrices.",
    soap::SoapFactory);
