#include <algorithm>
#include <cmath>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "shared/broadcast.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::cpu {
namespace {

std::optional<std::string> unsupported_reduce_sum(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.results[0]);
}

std::optional<std::string> unsupported_repeat(const OpInstance& op) {
  return devices::unsupported_broadcast(op.results[0], op.operands[0]);
}

/// The element of the part that is repeated to row `row` of a whole. Rows lie along the last dim.
std::int64_t place_of_row(const devices::BroadcastShape& shape, std::int64_t row) {
  std::int64_t place = 0;
  std::int64_t stride = shape.present[shape.count - 1] ? shape.sizes[shape.count - 1] : 1;
  for (int i = shape.count - 2; i >= 0; --i) {
    if (shape.present[i]) {
      place += row % shape.sizes[i] * stride;
      stride *= shape.sizes[i];
    }
    row /= shape.sizes[i];
  }
  return place;
}

constexpr auto kRepeat = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const devices::BroadcastShape shape = devices::broadcast_shape(op.results[0], op.operands[0]);
  const std::int64_t width = shape.sizes[shape.count - 1];
  const std::int64_t step = shape.present[shape.count - 1] ? 1 : 0;
  return {[=, count = elements(op.results[0]) / width, accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    for_each_row(threads, count, width, [&](std::int64_t row) {
      const float* x = in<float>(arguments, 0) + place_of_row(shape, row);
      T* y = out<T>(arguments, 0) + row * width;
      for (std::int64_t j = 0; j < width; ++j) store_value(y[j], x[j * step], accumulate);
    });
  }};
};

template <class T>
double dot(std::int64_t count, double weight, const T* x, const T* y) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(widen(x[i])) * static_cast<double>(widen(y[i]));
  return weight * sum;
}

constexpr auto kGroupSquares = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const auto sum_of_squares = reduce_kernels(environment.instruction_set()).of<T>().sum_of_squares;
  const std::int64_t groups = elements(op.results[0]);
  return {[=, runs = group_runs(op), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    double* sums = out<double>(arguments, 0);
    if (!accumulate) std::fill_n(sums, groups, 0.0);
    for (const GroupRun& run : runs) {
      sums[run.group] += sum_of_squares(run.length, in<T>(arguments, 0) + run.begin, threads);
    }
  }};
};

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// If the norm is not finite, the scale is not finite either, and updates change nothing. Without targets the norm is
/// 0, and the scale 0 or, if such a step is to be skipped, NaN.
PreparedKernel prepare_gradient_scale(const OpInstance& op) {
  const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
  return {[clip = op.attributes.number("clip"), empty](const KernelArguments& arguments) {
    const double count = *in<double>(arguments, 1);
    const double divisor = count * arguments.context.loss_scale;
    const double norm = count > 0.0 ? std::sqrt(*in<double>(arguments, 0)) / divisor : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    const double scale = std::isfinite(norm) ? factor / divisor : std::nan("");
    *out<double>(arguments, 0) = count > 0.0 ? scale : empty;
    *out<double>(arguments, 1) = norm;
  }};
}

}  // namespace

void register_reduction(Registration& registration) {
  add(registration, {"reduce_sum", "t", "f", true, unsupported_reduce_sum},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(reduce_kernels(environment.instruction_set()).of<T>().sum,
                    devices::broadcast_shape(op.operands[0], op.results[0]), Operand<T>{0}, Result<float>{0},
                    op.accumulate, environment.threads());
      });
  add(registration, {"repeat", "f", "f", true, unsupported_repeat}, kRepeat);
  add(registration, {"dot", "tt", "d", true}, []<class T>(const OpInstance& op) {
    return call_for_total(op.accumulate, dot<T>, elements(op.operands[0]), op.attributes.number("weight"),
                          Operand<T>{0}, Operand<T>{1});
  });
  add(registration, {ops::kSumOfSquares, "t", "d", true},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call_for_total(op.accumulate, reduce_kernels(environment.instruction_set()).of<T>().sum_of_squares,
                              elements(op.operands[0]), Operand<T>{0}, environment.threads());
      });
  add(registration, {ops::kGroupSquares, "t", "d", true}, kGroupSquares);
  add(registration, {ops::kGradientScale, "dd", "dd"}, prepare_gradient_scale);
}

}  // namespace strata::cpu
