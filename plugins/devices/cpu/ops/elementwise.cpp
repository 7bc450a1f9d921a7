#include <cstring>
#include <vector>

#include "ops/operations.hpp"
#include "strata/error.hpp"

namespace strata::cpu {
namespace {

ActivationKind activation_kind(const OpInstance& op) {
  const std::string& kind = op.attributes.word("kind");
  if (kind == "gelu_tanh") return ActivationKind::gelu_tanh;
  if (kind == "relu") return ActivationKind::relu;
  if (kind == "silu") return ActivationKind::silu;
  throw ConfigurationError("activation '" + op.name + "': unknown kind '" + kind + "'");
}

}  // namespace

ComputeKernel prepare_add(const OpInstance& op, const Environment& environment) {
  const ElementwiseKernels kernels = environment.library->elementwise;
  const int threads = environment.threads;
  if (op.operands[0].dims == op.operands[1].dims) {
    return {[=, size = elements(op.results[0])](const KernelArguments& arguments) {
      kernels.add(size, f32(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
    }};
  }
  return {[=, shape = broadcast_shape(op.operands[0], op.operands[1])](const KernelArguments& arguments) {
    kernels.add_broadcast(shape, f32(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), threads);
  }};
}

ComputeKernel prepare_sum(const OpInstance& op, const Environment& environment) {
  const auto sum = environment.library->elementwise.sum;
  const std::int64_t size = elements(op.results[0]);
  std::vector<const float*> inputs(op.operands.size());
  return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = f32(arguments, i);
    sum(size, inputs.data(), static_cast<int>(inputs.size()), f32_result(arguments, 0), accumulate, threads);
  }};
}

ComputeKernel prepare_cast(const OpInstance& op, const Environment& environment) {
  const CastKernels kernels = environment.library->cast;
  const std::int64_t size = elements(op.results[0]);
  const int threads = environment.threads;
  const DType from = op.operands[0].dtype;
  const DType to = op.results[0].dtype;
  if (from == DType::f32 && to == DType::bf16) {
    return {[=](const KernelArguments& arguments) {
      kernels.f32_to_bf16(size, f32(arguments, 0), static_cast<std::uint16_t*>(arguments.results[0]), threads);
    }};
  }
  if (from == DType::bf16 && to == DType::f32) {
    return {[=](const KernelArguments& arguments) {
      kernels.bf16_to_f32(size, static_cast<const std::uint16_t*>(arguments.operands[0]), f32_result(arguments, 0),
                          threads);
    }};
  }
  return {[count = static_cast<std::size_t>(bytes(op.results[0]))](const KernelArguments& arguments) {
    std::memmove(arguments.results[0], arguments.operands[0], count);
  }};
}

ComputeKernel prepare_fill_zero(const OpInstance& op, const Environment& /*environment*/) {
  return {[count = static_cast<std::size_t>(bytes(op.results[0]))](const KernelArguments& arguments) {
    std::memset(arguments.results[0], 0, count);
  }};
}

ComputeKernel prepare_accumulate(const OpInstance& op, const Environment& environment) {
  const std::int64_t size = elements(op.results[0]);
  if (op.operands[0].dtype != op.results[0].dtype) {
    throw ConfigurationError("accumulate '" + op.name + "': operand and result differ in type");
  }
  if (op.results[0].dtype == DType::f64) {
    return {[size](const KernelArguments& arguments) {
      const auto* x = static_cast<const double*>(arguments.operands[0]);
      auto* y = static_cast<double*>(arguments.results[0]);
      for (std::int64_t i = 0; i < size; ++i) y[i] += x[i];
    }};
  }
  const auto accumulate = environment.library->elementwise.accumulate;
  return {[=, threads = environment.threads](const KernelArguments& arguments) {
    accumulate(size, f32(arguments, 0), f32_result(arguments, 0), threads);
  }};
}

ComputeKernel prepare_activation(const OpInstance& op, const Environment& environment) {
  const auto forward = environment.library->activation.forward;
  const ActivationKind kind = activation_kind(op);
  return {[=, size = elements(op.results[0]), threads = environment.threads](const KernelArguments& arguments) {
    forward(kind, size, f32(arguments, 0), f32_result(arguments, 0), threads);
  }};
}

ComputeKernel prepare_activation_gradient(const OpInstance& op, const Environment& environment) {
  const auto gradient = environment.library->activation.gradient;
  const ActivationKind kind = activation_kind(op);
  const std::int64_t size = elements(op.results[0]);
  return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
    gradient(kind, size, f32(arguments, 0), f32(arguments, 1), f32_result(arguments, 0), accumulate, threads);
  }};
}

}  // namespace strata::cpu
