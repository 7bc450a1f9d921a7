#include <algorithm>

#include "ops/row_op.hpp"

namespace strata::ops {
namespace {

// The ops take logits […  V] and targets […] i32.

void require_targets(const TensorType& targets, const Dims& dims, const Node& node) {
  require_dims(targets, dims, node);
  require(targets.dtype == DType::i32, node, "targets are i32, found " + to_string(targets));
}

void require_logits(const TensorType& logits, const Node& node) {
  require_float(logits, node);
  require(!logits.dims.empty(), node, "logits have at least one dim");
}

/// Type of a value per row of logits.
TensorType row_type(const TensorType& logits) { return {without_last(logits.dims), statistic_type(logits.dtype)}; }

const TensorType kTotal{{}, DType::f64};

double smoothing_of(const Attributes& attributes) {
  return attributes.has("label_smoothing") ? attributes.number("label_smoothing") : 0;
}

/// Parts of a label: of its target, and of every element of the last dim.
struct LabelParts {
  explicit LabelParts(const OpInstance& op)
      : target(1 - smoothing_of(op.attributes)),
        each(smoothing_of(op.attributes) / static_cast<double>(index_map(op, op.operands[0].dims.back()).global_size)) {
  }
  double target;
  double each;
};

Types infer_cross_entropy(const Types& types, const Node& node) {
  require_logits(types[0], node);
  require_targets(types[1], without_last(types[0].dims), node);
  const double smoothing = smoothing_of(node.attributes);
  require(smoothing >= 0 && smoothing < 1, node, "label_smoothing is at least 0 and below 1");
  return {kTotal, row_type(types[0]), kTotal};
}

void cross_entropy_rule(GradientContext& context) {
  require_no_cotangent(context, 1);
  context.contribute(
      0, context.emit(0, "cross_entropy_gradient", {context.operand(0), context.result(1), context.operand(1)},
                      context.node().attributes)[0]);
}

void decompose_cross_entropy(DecomposeContext& context) {
  const Value logits = context.node().operands[0];
  const Value targets = context.node().operands[1];
  const Value maximum = context.emit("row_max", {logits}, {})[0];
  const Value exponentials = context.emit("sum_exponentials", {logits, maximum}, {})[0];
  const Value log_sum = context.emit("log_sum_exponential", {maximum, exponentials}, {})[0];
  const Value picked = context.emit("pick", {logits, targets}, context.node().attributes)[0];
  context.replace(0, context.emit("cross_entropy_sum", {log_sum, picked, targets}, {})[0]);
  context.replace(1, log_sum);
  context.replace(2, context.emit("count_targets", {targets}, {})[0]);
}

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
  return map_elements<2>(op, [](double m, double s) { return m + std::log(s); });
}

Work prepare_pick(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims.back());
  return [map, parts = LabelParts(op)](const Launch& launch) {
    const Reader logits = launch.operand(0);
    const Reader targets = launch.operand(1);
    const Writer picked = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      double value = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        const double part = (map.global_index(j) == target_of(targets, row) ? parts.target : 0) + parts.each;
        if (part > 0) value += part * logits[row * width + j];
      }
      picked.set(row, target_of(targets, row) < 0 ? 0 : value);
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

/// True if `target` has the largest of the row's logits. Of equals, the first one is the largest.
bool is_best(const Reader& logits, std::int64_t first, std::int64_t width, std::int64_t target) {
  if (target < 0 || target >= width) return false;
  const double own = logits[first + target];
  for (std::int64_t j = 0; j < width; ++j) {
    const double other = logits[first + j];
    if (j < target ? !(other < own) : !(other <= own)) return false;
  }
  return true;
}

Work prepare_count_correct(const OpInstance& op) {
  return [count = rows(op.operands[0]), width = columns(op.operands[0])](const Launch& launch) {
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      correct += is_best(launch.operand(0), row * width, width, target_of(launch.operand(1), row)) ? 1 : 0;
    }
    launch.result(0).set(0, static_cast<double>(correct));
  };
}

Work prepare_cross_entropy_gradient(const OpInstance& op) {
  const IndexMap map = index_map(op, op.operands[0].dims.back());
  return [map, parts = LabelParts(op)](const Launch& launch) {
    const Reader logits = launch.operand(0);
    const Reader lse = launch.operand(1);
    const Reader targets = launch.operand(2);
    const Writer dlogits = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t target = target_of(targets, row);
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t i = row * width + j;
        const double label = (map.global_index(j) == target ? parts.target : 0.0) + parts.each;
        dlogits.set(i, target < 0 ? 0.0 : std::exp(logits[i] - lse[row]) - label);
      }
    }
  };
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  add_op(registration,
         {.name = "cross_entropy",
          .documentation =
              "logits […  V], targets […] i32 -> loss [] f64, log_sum_exponential […], count [] f64 (attribute "
              "label_smoothing: the part of a target that all of V share equally; 0 without it): the sum over targets "
              "that are not negative, and their number. Short-hand for pieces that a sharded V splits. All but the "
              "logits and their gradient are f32 where the logits are shorter.",
          .operands = 2,
          .infer = infer_cross_entropy,
          .precision = OperandPrecision::any,
          .gradient = cross_entropy_rule,
          .decomposition = decompose_cross_entropy});
  add_op(registration, {.name = "row_max",
                        .documentation = "x […  V] -> […]: the largest of the last dim.",
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_logits(types[0], node);
                          return {row_type(types[0])};
                        },
                        .reduction = Reduction::max});
  add_op(registration, {.name = "sum_exponentials",
                        .documentation = "x […  V], m […] -> […]: sum of exp(x - m) over the last dim.",
                        .operands = 2,
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_logits(types[0], node);
                          require_same(types[1], row_type(types[0]), node);
                          return {types[1]};
                        }});
  add_op(registration, {.name = "log_sum_exponential",
                        .documentation = "m […], s […] -> m + log(s).",
                        .operands = 2,
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_same(types[1], types[0], node);
                          return {types[0]};
                        },
                        .in_place = {0, 1}});
  add_op(registration,
         {.name = "pick",
          .documentation =
              "x […  V], targets […] i32 -> […] (attribute label_smoothing as cross_entropy's): the target's element, "
              "or the sum of the label's parts of all; 0 for a negative target and for what is outside of the shard.",
          .operands = 2,
          .infer = [](const Types& types, const Node& node) -> Types {
            require_logits(types[0], node);
            require_targets(types[1], without_last(types[0].dims), node);
            return {row_type(types[0])};
          }});
  add_op(registration,
         {.name = "cross_entropy_sum",
          .documentation =
              "log_sum_exponential […], picked […], targets […] i32 -> [] f64: sum of the difference over targets not "
              "negative.",
          .operands = 3,
          .infer = [](const Types& types, const Node& node) -> Types {
            require_same(types[1], types[0], node);
            require_targets(types[2], types[0].dims, node);
            return {kTotal};
          }});
  add_op(registration, {.name = "count_targets",
                        .documentation = "targets […] i32 -> [] f64: how many are not negative.",
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_targets(types[0], types[0].dims, node);
                          return {kTotal};
                        }});
  add_op(registration,
         {.name = "count_correct",
          .documentation = "logits […  V], targets […] i32 -> [] f64: how many targets have the largest logit of "
                           "their row. Of equal logits, the first one is the largest. Negative targets do not "
                           "count.",
          .operands = 2,
          .infer = [](const Types& types, const Node& node) -> Types {
            require_rows(types[0], node);
            require_targets(types[1], without_last(types[0].dims), node);
            return {kTotal};
          },
          .precision = OperandPrecision::any,
          .gradient = [](GradientContext& /*context*/) {},
          .iterate = keep_rows_whole,
          .chooses = 0});
  add_op(registration,
         {.name = "cross_entropy_gradient",
          .documentation =
              "logits […  V], log_sum_exponential […], targets […] i32 -> […  V] (attribute label_smoothing as "
              "cross_entropy's): softmax minus label; zeros for negative targets.",
          .operands = 3,
          .infer = [](const Types& types, const Node& node) -> Types {
            require_logits(types[0], node);
            require_same(types[1], row_type(types[0]), node);
            require_targets(types[2], types[1].dims, node);
            return {types[0]};
          },
          .in_place = {0}});
  registration.add(reference::kernel({"row_max", "r", "r", prepare_row_max, false}));
  registration.add(reference::kernel({"sum_exponentials", "rr", "r", prepare_sum_exponentials}));
  registration.add(reference::kernel({"log_sum_exponential", "rr", "r", prepare_log_sum_exponential, false}));
  registration.add(reference::kernel({"pick", "ri", "r", prepare_pick}));
  registration.add(reference::kernel({"cross_entropy_sum", "rri", "d", prepare_cross_entropy_sum}));
  registration.add(reference::kernel({"count_targets", "i", "d", prepare_count_targets}));
  registration.add(reference::kernel({"count_correct", "ri", "d", prepare_count_correct}));
  registration.add(reference::kernel({"cross_entropy_gradient", "rri", "r", prepare_cross_entropy_gradient}));
}

}  // namespace strata::ops
