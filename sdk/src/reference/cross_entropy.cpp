#include <algorithm>

#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

std::int64_t target_of(const Reader& targets, std::int64_t row) { return static_cast<std::int64_t>(targets[row]); }

Work prepare_row_max(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer m = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      double largest = x[row * width];
      for (std::int64_t j = 1; j < width; ++j) largest = std::max(largest, x[row * width + j]);
      m.set(row, largest);
    }
  };
}

Work prepare_sum_exponentials(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader m = launch.operand(1);
    const Writer s = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < width; ++j) sum += std::exp(x[row * width + j] - m[row]);
      s.set(row, sum);
    }
  };
}

Work prepare_log_sum_exponential(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader m = launch.operand(0);
    const Reader s = launch.operand(1);
    const Writer lse = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) lse.set(i, m[i] + std::log(s[i]));
  };
}

Work prepare_pick(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims.back());
  return [map](const Launch& launch) {
    const Reader logits = launch.operand(0);
    const Reader targets = launch.operand(1);
    const Writer picked = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      double value = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        if (map.global_index(j) == target_of(targets, row)) value = logits[row * width + j];
      }
      picked.set(row, value);
    }
  };
}

Work prepare_cross_entropy_sum(const OpInstance& op) {
  const std::int64_t count = elements(op.operands[0]);
  return [count](const Launch& launch) {
    const Reader lse = launch.operand(0);
    const Reader picked = launch.operand(1);
    const Reader targets = launch.operand(2);
    double sum = 0.0;
    for (std::int64_t row = 0; row < count; ++row) {
      if (target_of(targets, row) >= 0) sum += lse[row] - picked[row];
    }
    launch.result(0).set(0, sum);
  };
}

Work prepare_count_targets(const OpInstance& op) {
  const std::int64_t count = elements(op.operands[0]);
  return [count](const Launch& launch) {
    const Reader targets = launch.operand(0);
    std::int64_t found = 0;
    for (std::int64_t row = 0; row < count; ++row) found += target_of(targets, row) >= 0 ? 1 : 0;
    launch.result(0).set(0, static_cast<double>(found));
  };
}

Work prepare_cross_entropy_gradient(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims.back());
  return [map](const Launch& launch) {
    const Reader logits = launch.operand(0);
    const Reader lse = launch.operand(1);
    const Reader targets = launch.operand(2);
    const Writer dlogits = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t target = target_of(targets, row);
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t i = row * width + j;
        const double one_hot = map.global_index(j) == target ? 1.0 : 0.0;
        dlogits.set(i, target < 0 ? 0.0 : std::exp(logits[i] - lse[row]) - one_hot);
      }
    }
  };
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  registration.add(kernel({"row_max", "r", "r", prepare_row_max, false}));
  registration.add(kernel({"sum_exponentials", "rr", "r", prepare_sum_exponentials}));
  registration.add(kernel({"log_sum_exponential", "rr", "r", prepare_log_sum_exponential, false}));
  registration.add(kernel({"pick", "ri", "r", prepare_pick}));
  registration.add(kernel({"cross_entropy_sum", "rri", "d", prepare_cross_entropy_sum}));
  registration.add(kernel({"count_targets", "i", "d", prepare_count_targets}));
  registration.add(kernel({"cross_entropy_gradient", "rri", "r", prepare_cross_entropy_gradient}));
}

}  // namespace strata::reference
