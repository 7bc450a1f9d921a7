#include <algorithm>
#include <limits>

#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// Shapes: o [batch, queries, heads…, width], log-sum-exp [batch, heads…, queries].
Work prepare_attention_merge(const OpInstance& op) {
  const std::int64_t batch = op.operands[0].shape[0];
  const std::int64_t queries = op.operands[0].shape[1];
  const std::int64_t width = columns(op.operands[0]);
  const std::int64_t heads = elements(op.operands[1]) / (batch * queries);
  return [=](const Launch& launch) {
    const Reader outputs[] = {launch.operand(0), launch.operand(2)};
    const Reader log_sums[] = {launch.operand(1), launch.operand(3)};

    const auto merge = [&](std::int64_t output, std::int64_t row) {
      const double largest = std::max(log_sums[0][row], log_sums[1][row]);
      const bool sees_nothing = largest == -std::numeric_limits<double>::infinity();
      const double weights[] = {sees_nothing ? 0.0 : std::exp(log_sums[0][row] - largest),
                                sees_nothing ? 0.0 : std::exp(log_sums[1][row] - largest)};
      const double sum = weights[0] + weights[1];
      for (std::int64_t j = output; j < output + width; ++j) {
        launch.result(0).set(j, sees_nothing ? 0.0 : (weights[0] * outputs[0][j] + weights[1] * outputs[1][j]) / sum);
      }
      launch.result(1).set(row, sees_nothing ? largest : largest + std::log(sum));
    };

    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t q = 0; q < queries; ++q) {
        for (std::int64_t h = 0; h < heads; ++h) {
          merge(((b * queries + q) * heads + h) * width, (b * heads + h) * queries + q);
        }
      }
    }
  };
}

}  // namespace

void register_attention_merge(Registration& registration) {
  registration.add(kernel({"attention_merge", "rrrr", "rr", prepare_attention_merge, false}));
}

}  // namespace strata::reference
