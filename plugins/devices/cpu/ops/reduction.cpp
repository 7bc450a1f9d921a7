#include "ops/operations.hpp"
#include "shared/broadcast.hpp"

namespace strata::cpu {

std::optional<std::string> unsupported_add(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

std::optional<std::string> unsupported_reduce_sum(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.results[0]);
}

ComputeKernel prepare_reduce_sum(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto sum = environment.library->reduce.template of<T>().sum;
    const BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.results[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
      sum(shape, in<T>(arguments, 0), f32_result(arguments, 0), accumulate, threads);
    }};
  });
}

ComputeKernel prepare_sum_of_squares(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto sum_of_squares = environment.library->reduce.template of<T>().sum_of_squares;
    const std::int64_t size = elements(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
      const double sum = sum_of_squares(size, in<T>(arguments, 0), threads);
      double& result = f64_result(arguments, 0);
      result = accumulate ? result + sum : sum;
    }};
  });
}

}  // namespace strata::cpu
