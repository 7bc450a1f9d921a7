#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu_kernel.hpp"

/// \file
/// Rows of scores are short, one element for each expert, so nothing here is vectorised by hand.

namespace strata::cpu {
namespace {

/// A kernel that calls body(arguments, row, width) for every row of the operand `of`.
template <class Body>
PreparedKernel row_kernel(const OpInstance& op, std::size_t of, const CpuEnvironment& environment, const Body& body) {
  return {[body, count = rows(op.operands[of]), width = columns(op.operands[of]),
           threads = environment.threads()](const KernelArguments& arguments) {
    for_each_row(threads, count, width, [&](std::int64_t row) { body(arguments, row, width); });
  }};
}

/// The largest element of a row, and the sum of exp(x - largest).
struct RowSum {
  float largest = 0;
  float sum = 0;

  [[nodiscard]] float logarithm() const { return largest + std::log(sum); }
};

template <class T>
RowSum row_sum(const T* x, std::int64_t width) {
  RowSum row{widen(x[0]), 0};
  for (std::int64_t j = 1; j < width; ++j) row.largest = std::max(row.largest, widen(x[j]));
  for (std::int64_t j = 0; j < width; ++j) row.sum += std::exp(widen(x[j]) - row.largest);
  return row;
}

constexpr auto kSoftmaxGradient = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  return row_kernel(
      op, 1, environment,
      [accumulate = op.accumulate](const KernelArguments& arguments, std::int64_t row, std::int64_t width) {
        const float* dy = in<float>(arguments, 0) + row * width;
        const float* y = in<float>(arguments, 1) + row * width;
        T* dx = out<T>(arguments, 0) + row * width;
        float sum = 0;
        for (std::int64_t j = 0; j < width; ++j) sum += dy[j] * y[j];
        for (std::int64_t j = 0; j < width; ++j) store_value(dx[j], y[j] * (dy[j] - sum), accumulate);
      });
};

/// Scores of a row, and what is added where they are compared, or null.
template <class T>
struct Row {
  const T* scores;
  const T* bias;
  std::int64_t width;

  [[nodiscard]] float compared(std::int64_t j) const { return widen(scores[j]) + (bias ? widen(bias[j]) : 0.0F); }
  /// The best element after `last` in the order of choice; the best of all after -1. -1 if there is none.
  [[nodiscard]] std::int64_t next(std::int64_t last) const {
    std::int64_t best = -1;
    for (std::int64_t j = 0; j < width; ++j) {
      const bool is_left = last < 0 || compared(j) < compared(last) || (compared(j) == compared(last) && j > last);
      if (is_left && (best < 0 || compared(j) > compared(best))) best = j;
    }
    return best;
  }
  /// Calls body(element) for the k best.
  template <class Body>
  void each(std::int64_t k, const Body& body) const {
    for (std::int64_t j = next(-1); j >= 0 && k > 0; j = next(j), --k) body(j);
  }
  [[nodiscard]] float sum(std::int64_t k) const {
    float total = 0;
    each(k, [&](std::int64_t j) { total += widen(scores[j]); });
    return total;
  }
};

constexpr auto kTopK = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  const std::int64_t k = op.attributes.integer("k");
  const bool normalize = op.attributes.flag("normalize");
  const bool has_bias = op.operands.size() == 2;
  return row_kernel(op, 0, environment, [=](const KernelArguments& arguments, std::int64_t row, std::int64_t width) {
    const Row<T> of{in<T>(arguments, 0) + row * width, has_bias ? in<T>(arguments, 1) : nullptr, width};
    T* y = out<T>(arguments, 0) + row * width;
    const float by = normalize ? of.sum(k) : 1.0F;
    for (std::int64_t j = 0; j < width; ++j) assign(y[j], 0.0F);
    of.each(k, [&](std::int64_t j) { assign(y[j], widen(of.scores[j]) / by); });
  });
};

constexpr auto kTopKGradient = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  const std::int64_t k = op.attributes.integer("k");
  const bool normalize = op.attributes.flag("normalize");
  const bool has_bias = op.operands.size() == 3;
  return row_kernel(op, 0, environment, [=](const KernelArguments& arguments, std::int64_t row, std::int64_t width) {
    const Row<T> of{in<T>(arguments, 1) + row * width, has_bias ? in<T>(arguments, 2) : nullptr, width};
    const T* dy = in<T>(arguments, 0) + row * width;
    T* dx = out<T>(arguments, 0) + row * width;
    const float by = normalize ? of.sum(k) : 1.0F;
    float sum = 0;
    if (normalize) of.each(k, [&](std::int64_t j) { sum += widen(dy[j]) * widen(of.scores[j]) / by; });
    for (std::int64_t j = 0; j < width; ++j) assign(dx[j], 0.0F);
    of.each(k, [&](std::int64_t j) { assign(dx[j], (widen(dy[j]) - sum) / by); });
  });
};

/// The targets of rows behind the first `others` operands, or none. Rows of negative targets do not count.
class Targets {
 public:
  Targets(const OpInstance& op, std::size_t others) : others_(others), has_any_(op.operands.size() > others) {}

  [[nodiscard]] bool count(const KernelArguments& arguments, std::int64_t row) const {
    return !has_any_ || in<std::int32_t>(arguments, others_)[row] >= 0;
  }

 private:
  std::size_t others_;
  bool has_any_;
};

/// The loads of the experts of one sequence, times their number.
template <class T>
class Sequence {
 public:
  /// `load`: memory for one element for each expert.
  Sequence(const OpInstance& op, const KernelArguments& arguments, std::int64_t index, double* load)
      : width_(columns(op.operands[0])),
        tokens_(rows(op.operands[0]) / op.operands[0].shape[0]),
        first_(index * tokens_),
        load_(load),
        arguments_(arguments),
        targets_(op, 2) {
    scores_ = in<T>(arguments, 0) + index * tokens_ * width_;
    const T* gates = in<T>(arguments, 1) + index * tokens_ * width_;
    std::fill_n(load_, width_, 0.0);
    double chosen = 0;
    for (std::int64_t i = 0; i < tokens_ * width_; ++i) {
      const double is_chosen = widen(gates[i]) != 0 && counts(i / width_) ? 1 : 0;
      load_[i % width_] += is_chosen;
      chosen += is_chosen;
    }
    for (std::int64_t j = 0; j < width_; ++j) load_[j] *= static_cast<double>(width_) / std::max(chosen, 1.0);
  }

  [[nodiscard]] bool counts(std::int64_t token) const { return targets_.count(arguments_, first_ + token); }
  /// Calls body(token, sum of its scores, mean load of the experts by them) for tokens that count.
  template <class Body>
  void each_token(const Body& body) const {
    for (std::int64_t token = 0; token < tokens_; ++token) {
      if (!counts(token)) continue;
      // In f64, because gradients are differences of loads and means that are almost equal.
      double sum = 0;
      double weighted = 0;
      for (std::int64_t j = 0; j < width_; ++j) {
        sum += widen(scores_[token * width_ + j]);
        weighted += double{widen(scores_[token * width_ + j])} * load_[j];
      }
      body(token, sum, weighted / sum);
    }
  }

 private:
  std::int64_t width_;
  std::int64_t tokens_;
  std::int64_t first_;
  double* load_;
  const KernelArguments& arguments_;
  Targets targets_;
  const T* scores_ = nullptr;
};

constexpr auto kBalanceLoss = []<class T>(const OpInstance& op) -> PreparedKernel {
  const std::int64_t bytes = columns(op.operands[0]) * std::int64_t{sizeof(double)};
  return {[op, weight = op.attributes.number("weight")](const KernelArguments& arguments) {
            double total = 0;
            for (std::int64_t i = 0; i < op.operands[0].shape[0]; ++i) {
              Sequence<T>(op, arguments, i, kernels::workspace_at<double>(arguments, 0))
                  .each_token([&](std::int64_t /*token*/, double /*sum*/, double mean) { total += mean; });
            }
            double& result = *out<double>(arguments, 0);
            result = (op.accumulate ? result : 0.0) + weight * total;
          },
          bytes};
};

constexpr auto kBalanceLossGradient = []<class T>(const OpInstance& op) -> PreparedKernel {
  const std::int64_t bytes = columns(op.operands[0]) * std::int64_t{sizeof(double)};
  return {[op, weight = op.attributes.number("weight")](const KernelArguments& arguments) {
            const std::int64_t width = columns(op.operands[0]);
            const std::int64_t tokens = rows(op.operands[0]) / op.operands[0].shape[0];
            double* load = kernels::workspace_at<double>(arguments, 0);
            for (std::int64_t i = 0; i < op.operands[0].shape[0]; ++i) {
              T* dx = out<T>(arguments, 0) + i * tokens * width;
              if (!op.accumulate) std::fill_n(dx, tokens * width, T{});
              Sequence<T>(op, arguments, i, load).each_token([&](std::int64_t token, double sum, double mean) {
                for (std::int64_t j = 0; j < width; ++j) {
                  store_value(dx[token * width + j], static_cast<float>(weight * (load[j] - mean) / sum),
                              op.accumulate);
                }
              });
            }
          },
          bytes};
};

constexpr auto kZLoss = []<class T>(const OpInstance& op) -> PreparedKernel {
  return PreparedKernel{[weight = op.attributes.number("weight"), count = rows(op.operands[0]),
                         width = columns(op.operands[0]), targets = Targets(op, 1),
                         accumulate = op.accumulate](const KernelArguments& arguments) {
    double sum = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      if (!targets.count(arguments, row)) continue;
      const double z = row_sum(in<T>(arguments, 0) + row * width, width).logarithm();
      sum += z * z;
    }
    double& result = *out<double>(arguments, 0);
    result = (accumulate ? result : 0.0) + weight * sum;
  }};
};

constexpr auto kZLossGradient = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  const auto weight = static_cast<float>(op.attributes.number("weight"));
  return row_kernel(op, 0, environment,
                    [weight, accumulate = op.accumulate, targets = Targets(op, 1)](
                        const KernelArguments& arguments, std::int64_t row, std::int64_t width) {
                      const T* x = in<T>(arguments, 0) + row * width;
                      T* dx = out<T>(arguments, 0) + row * width;
                      const RowSum of = row_sum(x, width);
                      const float factor = targets.count(arguments, row) ? 2 * weight * of.logarithm() / of.sum : 0.0F;
                      for (std::int64_t j = 0; j < width; ++j) {
                        store_value(dx[j], factor * std::exp(widen(x[j]) - of.largest), accumulate);
                      }
                    });
};

constexpr auto kCountChoices = []<class T>(const OpInstance& op) -> PreparedKernel {
  return {[count = rows(op.operands[0]), width = columns(op.operands[0]), targets = Targets(op, 1),
           accumulate = op.accumulate](const KernelArguments& arguments) {
    auto* load = out<double>(arguments, 0);
    if (!accumulate) std::fill_n(load, width, 0.0);
    for (std::int64_t row = 0; row < count; ++row) {
      if (!targets.count(arguments, row)) continue;
      const T* gates = in<T>(arguments, 0) + row * width;
      for (std::int64_t j = 0; j < width; ++j) load[j] += widen(gates[j]) != 0 ? 1 : 0;
    }
  }};
};

constexpr auto kLoadDeficit = []<class T>(const OpInstance& op) -> PreparedKernel {
  return {[count = rows(op.operands[0]), width = columns(op.operands[0]), k = op.attributes.integer("k"),
           accumulate = op.accumulate](const KernelArguments& arguments) {
    std::vector<std::int64_t> load(static_cast<std::size_t>(width));
    const T* gates = in<T>(arguments, 0);
    for (std::int64_t row = 0; row < count; ++row, gates += width) {
      for (std::int64_t j = 0; j < width; ++j) load[static_cast<std::size_t>(j)] += widen(gates[j]) != 0 ? 1 : 0;
    }
    auto* deficit = out<float>(arguments, 0);
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t of_column = k * count - width * load[static_cast<std::size_t>(j)];
      store_value(deficit[j], static_cast<float>(of_column), accumulate);
    }
  }};
};

}  // namespace

void register_routing(Registration& registration) {
  add(registration, {"softmax", "t", "f"}, []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
    return row_kernel(op, 0, environment, [](const KernelArguments& arguments, std::int64_t row, std::int64_t width) {
      const T* x = in<T>(arguments, 0) + row * width;
      float* y = out<float>(arguments, 0) + row * width;
      const RowSum of = row_sum(x, width);
      for (std::int64_t j = 0; j < width; ++j) y[j] = std::exp(widen(x[j]) - of.largest) / of.sum;
    });
  });
  add(registration, {"softmax_gradient", "ff", "r", true}, kSoftmaxGradient);
  for (const std::string bias : {"", "t"}) {
    add(registration, {"top_k", "t" + bias, "t"}, kTopK);
    add(registration, {"top_k_gradient", "tt" + bias, "t"}, kTopKGradient);
  }
  add(registration, {"load_deficit", "t", "f", true}, kLoadDeficit);
  for (const std::string targets : {"", "i"}) {
    add(registration, {"count_choices", "t" + targets, "d", true}, kCountChoices);
    add(registration, {"balance_loss", "tt" + targets, "d", true}, kBalanceLoss);
    add(registration, {"balance_loss_gradient", "tt" + targets, "t", true}, kBalanceLossGradient);
    add(registration, {"z_loss", "t" + targets, "d", true}, kZLoss);
    add(registration, {"z_loss_gradient", "t" + targets, "t", true}, kZLossGradient);
  }
}

}  // namespace strata::cpu
