#include <algorithm>
#include <cmath>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

/// The labels of logits [rows, columns] with label smoothing, for loops that classes are too few to make slow.
class SmoothedLabels {
 public:
  explicit SmoothedLabels(const OpInstance& op)
      : columns_(kernels::index_map(op, op.operands[0].dims.back())),
        width_(columns(op.operands[0])),
        smoothing_(op.attributes.number("label_smoothing")) {}

  /// Calls visit(element, label) for the elements of a row in this shard.
  template <class Visit>
  void for_each(std::int64_t row, std::int32_t target, const Visit& visit) const {
    const double each = smoothing_ / static_cast<double>(columns_.global_size);
    for (std::int64_t column = 0; column < width_; ++column) {
      const double own = columns_.global_index(column) == target ? 1 - smoothing_ : 0;
      visit(row * width_ + column, static_cast<float>(own + each));
    }
  }

 private:
  strata::IndexMap columns_;
  std::int64_t width_;
  double smoothing_;
};

bool is_smoothed(const OpInstance& op) { return op.attributes.has("label_smoothing"); }

template <class T>
PreparedKernel prepare_smoothed_pick(const OpInstance& op) {
  return {[labels = SmoothedLabels(op), count = rows(op.operands[0])](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int32_t target = in<std::int32_t>(arguments, 1)[row];
      double sum = 0;
      if (target >= 0) {
        labels.for_each(row, target, [&](std::int64_t i, float label) {
          sum += static_cast<double>(label) * static_cast<double>(widen(x[i]));
        });
      }
      out<float>(arguments, 0)[row] = static_cast<float>(sum);
    }
  }};
}

template <class T>
PreparedKernel prepare_smoothed_gradient(const OpInstance& op) {
  return {[labels = SmoothedLabels(op), count = rows(op.operands[0])](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    T* dx = out<T>(arguments, 0);
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int32_t target = in<std::int32_t>(arguments, 2)[row];
      const float log_sum = in<float>(arguments, 1)[row];
      labels.for_each(row, target, [&](std::int64_t i, float label) {
        assign(dx[i], target < 0 ? 0.0F : std::exp(widen(x[i]) - log_sum) - label);
      });
    }
  }};
}

/// True if `target` has the largest of the logits x. Of equals, the first one is the largest.
template <class T>
bool is_best(const T* x, std::int64_t width, std::int32_t target) {
  if (target < 0 || target >= width) return false;
  const float own = widen(x[target]);
  return std::all_of(x, x + target, [own](T other) { return widen(other) < own; }) &&
         std::all_of(x + target, x + width, [own](T other) { return widen(other) <= own; });
}

template <class T>
double count_correct(std::int64_t rows, std::int64_t width, const T* x, const std::int32_t* targets) {
  double correct = 0;
  for (std::int64_t row = 0; row < rows; ++row) correct += is_best(x + row * width, width, targets[row]) ? 1 : 0;
  return correct;
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  add(registration, {"row_max", "t", "f"}, []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().row_max, rows(op.operands[0]),
                columns(op.operands[0]), Operand<T>{0}, Result<float>{0}, environment.threads());
  });
  add(registration, {"sum_exponentials", "tf", "f"},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(cross_entropy_kernels(environment.instruction_set()).of<T>().sum_exponentials, rows(op.operands[0]),
                    columns(op.operands[0]), Operand<T>{0}, Operand<float>{1}, Result<float>{0}, environment.threads());
      });
  add(registration, {"log_sum_exponential", "ff", "f"}, [](const OpInstance& op, const CpuEnvironment& environment) {
    return call(row_loss_kernels(environment.instruction_set()).log_sum_exponential, elements(op.results[0]),
                Operand<float>{0}, Operand<float>{1}, Result<float>{0}, environment.threads());
  });
  add(registration, {"pick", "ti", "f"}, []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
    if (is_smoothed(op)) return prepare_smoothed_pick<T>(op);
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().pick, rows(op.operands[0]),
                columns(op.operands[0]), DimIndices(op, op.operands[0].dims.back()), Operand<T>{0},
                Operand<std::int32_t>{1}, Result<float>{0}, environment.threads());
  });
  add(registration, {"cross_entropy_sum", "ffi", "d", true},
      [](const OpInstance& op, const CpuEnvironment& environment) {
        return call_for_total(op.accumulate, row_loss_kernels(environment.instruction_set()).loss_sum,
                              elements(op.operands[0]), Operand<float>{0}, Operand<float>{1}, Operand<std::int32_t>{2});
      });
  add(registration, {"count_targets", "i", "d", true}, [](const OpInstance& op, const CpuEnvironment& environment) {
    return call_for_total(op.accumulate, row_loss_kernels(environment.instruction_set()).count_targets,
                          elements(op.operands[0]), Operand<std::int32_t>{0});
  });
  add(registration, {"count_correct", "ti", "d", true}, []<class T>(const OpInstance& op) {
    return call_for_total(op.accumulate, count_correct<T>, rows(op.operands[0]), columns(op.operands[0]), Operand<T>{0},
                          Operand<std::int32_t>{1});
  });
  add(registration, {"cross_entropy_gradient", "tfi", "t"},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        if (is_smoothed(op)) return prepare_smoothed_gradient<T>(op);
        return call(cross_entropy_kernels(environment.instruction_set()).of<T>().gradient, rows(op.operands[0]),
                    columns(op.operands[0]), DimIndices(op, op.operands[0].dims.back()), Operand<T>{0},
                    Operand<float>{1}, Operand<std::int32_t>{2}, Result<T>{0}, environment.threads());
      });
}

}  // namespace strata::cpu
