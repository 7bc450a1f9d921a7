#include "ops/operations.hpp"

namespace strata::cpu {

std::optional<std::string> unsupported_broadcast(const OperandDescription& whole, const OperandDescription& part) {
  std::size_t at = 0;
  for (const Dim& dim : whole.dims) {
    if (at < part.dims.size() && part.dims[at] == dim) ++at;
  }
  if (at != part.dims.size()) {
    return "[" + join(part.dims) + "] is no ordered subset of [" + join(whole.dims) + "]";
  }
  if (broadcast_shape(whole, part).count < 0) return "[" + join(whole.dims) + "] has too many dims";
  return std::nullopt;
}

std::optional<std::string> unsupported_add(const OpInstance& op) {
  return unsupported_broadcast(op.operands[0], op.operands[1]);
}

std::optional<std::string> unsupported_reduce_sum(const OpInstance& op) {
  return unsupported_broadcast(op.operands[0], op.results[0]);
}

BroadcastShape broadcast_shape(const OperandDescription& whole, const OperandDescription& part) {
  BroadcastShape shape;
  for (std::size_t i = 0; i < whole.dims.size(); ++i) {
    const bool present = find_dim(part.dims, whole.dims[i]) >= 0;
    if (shape.count > 0 && shape.present[shape.count - 1] == present) {
      shape.sizes[shape.count - 1] *= whole.shape[i];
      continue;
    }
    if (shape.count == BroadcastShape::kMaxDims) {
      shape.count = -1;
      return shape;
    }
    shape.sizes[shape.count] = whole.shape[i];
    shape.present[shape.count] = present;
    ++shape.count;
  }
  if (shape.count == 0) {  // a scalar
    shape.sizes[0] = 1;
    shape.present[0] = true;
    shape.count = 1;
  }
  return shape;
}

ComputeKernel prepare_reduce_sum(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto sum = environment.library->reduce.template of<T>().sum;
    const BroadcastShape shape = broadcast_shape(op.operands[0], op.results[0]);
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
