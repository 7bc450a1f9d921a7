#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_row_max(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().row_max, rows(op.operands[0]),
                columns(op.operands[0]), Operand<T>{0}, Result<float>{0}, environment.threads());
  });
}

PreparedKernel prepare_sum_exponentials(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().sum_exponentials, rows(op.operands[0]),
                columns(op.operands[0]), Operand<T>{0}, Operand<float>{1}, Result<float>{0}, environment.threads());
  });
}

PreparedKernel prepare_log_sum_exponential(const OpInstance& op, const CpuEnvironment& environment) {
  return call(row_loss_kernels(environment.instruction_set()).log_sum_exponential, elements(op.results[0]),
              Operand<float>{0}, Operand<float>{1}, Result<float>{0}, environment.threads());
}

PreparedKernel prepare_pick(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().pick, rows(op.operands[0]),
                columns(op.operands[0]), DimIndices(op, op.operands[0].dims.back()), Operand<T>{0},
                Operand<std::int32_t>{1}, Result<float>{0}, environment.threads());
  });
}

PreparedKernel prepare_cross_entropy_sum(const OpInstance& op, const CpuEnvironment& environment) {
  return call_for_total(op.accumulate, row_loss_kernels(environment.instruction_set()).loss_sum,
                        elements(op.operands[0]), Operand<float>{0}, Operand<float>{1}, Operand<std::int32_t>{2});
}

PreparedKernel prepare_count_targets(const OpInstance& op, const CpuEnvironment& environment) {
  return call_for_total(op.accumulate, row_loss_kernels(environment.instruction_set()).count_targets,
                        elements(op.operands[0]), Operand<std::int32_t>{0});
}

PreparedKernel prepare_cross_entropy_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(cross_entropy_kernels(environment.instruction_set()).of<T>().gradient, rows(op.operands[0]),
                columns(op.operands[0]), DimIndices(op, op.operands[0].dims.back()), Operand<T>{0}, Operand<float>{1},
                Operand<std::int32_t>{2}, Result<T>{0}, environment.threads());
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
