#include <algorithm>
#include <cmath>

#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

Work prepare_fill_zero(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, 0.0);
  };
}

Work prepare_accumulate(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, y.get(i) + x[i]);
  };
}

Work prepare_weighted_sum(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  std::vector<double> factors;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    factors.push_back(op.attributes.number("factor" + std::to_string(i)));
  }
  return [count, factors = std::move(factors)](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (std::size_t k = 0; k < factors.size(); ++k) sum += factors[k] * launch.operand(k)[i];
      y.set(i, sum);
    }
  };
}

Work prepare_sum_of_squares(const OpInstance& op) {
  const std::int64_t count = elements(op.operands[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
    launch.result(0).set(0, sum);
  };
}

Work prepare_group_squares(const OpInstance& op) {
  return [runs = group_runs(op), groups = elements(op.results[0])](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(groups), 0.0);
    const Reader x = launch.operand(0);
    for (const GroupRun& run : runs) {
      for (std::int64_t i = run.begin; i < run.begin + run.length; ++i) {
        sums[static_cast<std::size_t>(run.group)] += x[i] * x[i];
      }
    }
    for (std::int64_t group = 0; group < groups; ++group) {
      launch.result(0).set(group, sums[static_cast<std::size_t>(group)]);
    }
  };
}

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// If the norm is not finite, the scale is not finite either, and updates change nothing. Without targets the norm is
/// 0, and the scale 0 or, if such a step is to be skipped, NaN.
Work prepare_gradient_scale(const OpInstance& op) {
  const double clip = op.attributes.number("clip");
  const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
  return [clip, empty](const Launch& launch) {
    const double sum_of_squares = launch.operand(0)[0];
    const double count = launch.operand(1)[0];
    const double divisor = count * launch.context().loss_scale;
    const double norm = count > 0.0 ? std::sqrt(sum_of_squares) / divisor : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    const double scale = std::isfinite(norm) ? factor / divisor : std::nan("");
    launch.result(0).set(0, count > 0.0 ? scale : empty);
    launch.result(1).set(0, norm);
  };
}

}  // namespace

void register_flat(Registration& registration) {
  registration.add(kernel({ops::kFillZero, "", "r", prepare_fill_zero, false}));
  registration.add(kernel({ops::kAccumulate, "r", "r", prepare_accumulate, false}));
  registration.add(kernel({ops::kWeightedSum, "r*", "r", prepare_weighted_sum}));
  registration.add(kernel({ops::kSumOfSquares, "r", "d", prepare_sum_of_squares}));
  registration.add(kernel({ops::kGroupSquares, "r", "d", prepare_group_squares}));
  registration.add(kernel({ops::kGradientScale, "dd", "dd", prepare_gradient_scale, false}));
}

}  // namespace strata::reference
