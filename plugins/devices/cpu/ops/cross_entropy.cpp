#include "index_map.hpp"
#include "ops/operations.hpp"

namespace strata::cpu {

ComputeKernel prepare_row_max(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto row_max = environment.library->cross_entropy.template of<T>().row_max;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, threads = environment.threads](const KernelArguments& arguments) {
      row_max(height, width, in<T>(arguments, 0), f32_result(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_sum_exponentials(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto sum_exponentials = environment.library->cross_entropy.template of<T>().sum_exponentials;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, threads = environment.threads](const KernelArguments& arguments) {
      sum_exponentials(height, width, in<T>(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_log_sum_exponential(const OpInstance& op, const Environment& environment) {
  const auto log_sum_exponential = environment.library->row_losses.log_sum_exponential;
  return {[=, size = elements(op.results[0]), threads = environment.threads](const KernelArguments& arguments) {
    log_sum_exponential(size, f32(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
  }};
}

ComputeKernel prepare_pick(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto pick = environment.library->cross_entropy.template of<T>().pick;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = DimIndices(op, op.operands[0].dims.back()),
             threads = environment.threads](const KernelArguments& arguments) mutable {
      pick(height, width, vocabulary.map(0), in<T>(arguments, 0), i32(arguments, 1), f32_result(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_cross_entropy_sum(const OpInstance& op, const Environment& environment) {
  const auto loss_sum = environment.library->row_losses.loss_sum;
  return {[=, size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const double sum = loss_sum(size, f32(arguments, 0), f32(arguments, 1), i32(arguments, 2));
    double& result = f64_result(arguments, 0);
    result = accumulate ? result + sum : sum;
  }};
}

ComputeKernel prepare_count_targets(const OpInstance& op, const Environment& environment) {
  const auto count_targets = environment.library->row_losses.count_targets;
  return {[=, size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto count = static_cast<double>(count_targets(size, i32(arguments, 0)));
    double& result = f64_result(arguments, 0);
    result = accumulate ? result + count : count;
  }};
}

ComputeKernel prepare_cross_entropy_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto gradient = environment.library->cross_entropy.template of<T>().gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = DimIndices(op, op.operands[0].dims.back()),
             threads = environment.threads](const KernelArguments& arguments) mutable {
      gradient(height, width, vocabulary.map(0), in<T>(arguments, 0), f32(arguments, 1), i32(arguments, 2),
               out<T>(arguments, 0), threads);
    }};
  });
}

}  // namespace strata::cpu
