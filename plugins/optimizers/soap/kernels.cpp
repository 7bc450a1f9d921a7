#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared/dot.hpp"
#include "shared/square_matrix_op.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/update_kernel.hpp"

namespace soap {

using namespace strata;
using plugins::dot;
using preconditioned::side_of;
using preconditioned::SquareMatrixOp;

namespace {

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

}  // namespace

void provide_ops(Registration& registration) {
  registration.add(std::make_unique<AdamDirection>());
  registration.add(reference::kernel({kAdamDirection, "rr", "r", prepare_reference_direction}));
  registration.add({.op = kAdamDirection, .signature = {"ff", "f"}, .prepare = prepare_direction});
  registration.add(std::make_unique<SquareMatrixOp>(
      kOrthonormalRows,
      "x [… s s'] -> Q - I (attributes ridge, and side: the number of dims of s and of s'). The rows of Q are those of "
      "x + ridge I, orthonormalised one after another (modified Gram-Schmidt, twice)."));
  registration.add(reference::kernel({kOrthonormalRows, "r", "r", prepare_reference_rows}));
  registration.add({.op = kOrthonormalRows, .signature = {"f", "f"}, .prepare = prepare_rows});
}

}  // namespace soap
