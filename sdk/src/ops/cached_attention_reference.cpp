#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_base.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::ops {
namespace {

/// Sizes of q, o [batch, positions, heads, width] and the caches [batch, capacity, kv_heads, width]. Several head dims
/// count as one.
struct CachedShape {
  explicit CachedShape(const OpInstance& op)
      : batch(op.operands[0].shape[0]),
        positions(op.operands[0].shape[1]),
        capacity(op.results[1].shape[1]),
        width(columns(op.operands[0])),
        heads(elements(op.operands[0]) / (batch * positions * width)),
        kv_heads(elements(op.operands[1]) / (batch * positions * width)),
        window(op.attributes.integer("window")),
        distances(op.operands.size() > kBias ? columns(op.operands[kBias]) : 0),
        scores(attention_scores(op)) {}

  static constexpr std::size_t kBias = 4;

  std::int64_t batch, positions, capacity, width, heads, kv_heads, window;
  /// Elements of a head of the bias. 0: there is no bias.
  std::int64_t distances;
  AttentionScores scores;
};

/// Copies row (b, i) of operand `operand` to its position of result `result`.
void keep(const Launch& launch, const CachedShape& shape, std::size_t operand, std::size_t result, std::int64_t row,
          std::int64_t cached) {
  const std::int64_t size = shape.kv_heads * shape.width;
  for (std::int64_t j = 0; j < size; ++j) {
    launch.result(result).overwrite(cached * size + j, launch.operand(operand)[row * size + j]);
  }
}

/// Attention of one head of one query to the positions [first, last] of its text. Sums run in the order of positions,
/// as in the op attention, so that both give the same bits.
void attend(const Launch& launch, const CachedShape& shape, std::int64_t b, std::int64_t i, std::int64_t h,
            std::int64_t position) {
  const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, position - shape.window + 1) : 0;
  const std::int64_t head = h / (shape.heads / shape.kv_heads);
  const auto cached = [&](std::int64_t k) { return ((b * shape.capacity + k) * shape.kv_heads + head) * shape.width; };
  const std::int64_t query = ((b * shape.positions + i) * shape.heads + h) * shape.width;
  const Reader q = launch.operand(0);
  const Writer keys = launch.result(1);
  const Writer values = launch.result(2);
  const auto bias = [&](std::int64_t k) {
    if (shape.distances == 0) return 0.0;
    return launch.operand(CachedShape::kBias)[h * shape.distances + shape.distances / 2 + k - position];
  };
  double* scores = launch.workspace();
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = first; k <= position; ++k) {
    double product = 0.0;
    for (std::int64_t j = 0; j < shape.width; ++j) product += q[query + j] * keys.get(cached(k) + j);
    scores[k] = shape.scores.of(product) + bias(k);
    largest = std::max(largest, scores[k]);
  }
  double sum = 0.0;
  for (std::int64_t k = first; k <= position; ++k) sum += std::exp(scores[k] - largest);
  const double log_sum = largest + std::log(sum);
  for (std::int64_t k = first; k <= position; ++k) scores[k] = std::exp(scores[k] - log_sum);
  for (std::int64_t j = 0; j < shape.width; ++j) {
    double result = 0.0;
    for (std::int64_t k = first; k <= position; ++k) result += scores[k] * values.get(cached(k) + j);
    launch.result(0).set(query + j, result);
  }
}

Work prepare_cached_attention(const OpInstance& op) {
  return [shape = CachedShape(op)](const Launch& launch) {
    const auto position_of = [&](std::int64_t row) { return static_cast<std::int64_t>(launch.operand(3)[row]); };
    for (std::int64_t row = 0; row < shape.batch * shape.positions; ++row) {
      if (position_of(row) < 0) continue;
      const std::int64_t cached = row / shape.positions * shape.capacity + position_of(row);
      keep(launch, shape, 1, 1, row, cached);
      keep(launch, shape, 2, 2, row, cached);
    }
    for (std::int64_t row = 0; row < shape.batch * shape.positions; ++row) {
      const std::int64_t position = position_of(row);
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        if (position >= 0) {
          attend(launch, shape, row / shape.positions, row % shape.positions, h, position);
          continue;
        }
        const std::int64_t output = (row * shape.heads + h) * shape.width;
        for (std::int64_t j = 0; j < shape.width; ++j) launch.result(0).set(output + j, 0.0);
      }
    }
  };
}

/// Workspace for one row of scores.
std::int64_t cached_attention_workspace(const OpInstance& op) {
  return op.results[1].shape[1] * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace

void register_cached_attention_reference(Registration& registration) {
  for (const char* operands : {"rrri", "rrrir"}) {
    registration.add(reference::kernel(
        {"cached_attention", operands, "rrr", prepare_cached_attention, false, cached_attention_workspace}));
  }
}

}  // namespace strata::ops
