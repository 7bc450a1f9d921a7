#include "kernels/cross_entropy.hpp"

#include "cpu_kernel.hpp"
#include "dim_indices.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_row_max(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto row_max = cross_entropy_kernels(environment.instruction_set()).of<T>().row_max;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      row_max(height, width, in<T>(arguments, 0), f32_result(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_sum_exponentials(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto sum_exponentials = cross_entropy_kernels(environment.instruction_set()).of<T>().sum_exponentials;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      sum_exponentials(height, width, in<T>(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_log_sum_exponential(const OpInstance& op, const CpuEnvironment& environment) {
  const auto log_sum_exponential = row_loss_kernels(environment.instruction_set()).log_sum_exponential;
  return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
    log_sum_exponential(size, f32(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
  }};
}

PreparedKernel prepare_pick(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto pick = cross_entropy_kernels(environment.instruction_set()).of<T>().pick;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = DimIndices(op, op.operands[0].dims.back()),
             threads = environment.threads()](const KernelArguments& arguments) mutable {
      pick(height, width, vocabulary.map(0), in<T>(arguments, 0), i32(arguments, 1), f32_result(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_cross_entropy_sum(const OpInstance& op, const CpuEnvironment& environment) {
  const auto loss_sum = row_loss_kernels(environment.instruction_set()).loss_sum;
  return {[=, size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const double sum = loss_sum(size, f32(arguments, 0), f32(arguments, 1), i32(arguments, 2));
    double& result = f64_result(arguments, 0);
    result = accumulate ? result + sum : sum;
  }};
}

PreparedKernel prepare_count_targets(const OpInstance& op, const CpuEnvironment& environment) {
  const auto count_targets = row_loss_kernels(environment.instruction_set()).count_targets;
  return {[=, size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto count = static_cast<double>(count_targets(size, i32(arguments, 0)));
    double& result = f64_result(arguments, 0);
    result = accumulate ? result + count : count;
  }};
}

PreparedKernel prepare_cross_entropy_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto gradient = cross_entropy_kernels(environment.instruction_set()).of<T>().gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = DimIndices(op, op.operands[0].dims.back()),
             threads = environment.threads()](const KernelArguments& arguments) mutable {
      gradient(height, width, vocabulary.map(0), in<T>(arguments, 0), f32(arguments, 1), i32(arguments, 2),
               out<T>(arguments, 0), threads);
    }};
  });
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  registration.add(kernel({"row_max", "t", "f", prepare_row_max}));
  registration.add(kernel({"sum_exponentials", "tf", "f", prepare_sum_exponentials}));
  registration.add(kernel({"log_sum_exponential", "ff", "f", prepare_log_sum_exponential}));
  registration.add(kernel({"pick", "ti", "f", prepare_pick}));
  registration.add(kernel({"cross_entropy_sum", "ffi", "d", prepare_cross_entropy_sum, true}));
  registration.add(kernel({"count_targets", "i", "d", prepare_count_targets, true}));
  registration.add(kernel({"cross_entropy_gradient", "tfi", "t", prepare_cross_entropy_gradient}));
}

}  // namespace strata::cpu
