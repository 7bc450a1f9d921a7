#include <cstring>
#include <vector>

#include "ops/operations.hpp"
#include "shared/broadcast.hpp"
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

template <class T>
ComputeKernel prepare_add_of(const OpInstance& op, const Environment& environment) {
  const ElementwiseKernels<T> kernels = environment.library->elementwise.of<T>();
  const int threads = environment.threads;
  if (op.operands[0].dims == op.operands[1].dims) {
    return {[=, size = elements(op.results[0])](const KernelArguments& arguments) {
      kernels.add(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
    }};
  }
  return {[=, shape = devices::broadcast_shape(op.operands[0], op.operands[1])](const KernelArguments& arguments) {
    kernels.add_broadcast(shape, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
  }};
}

template <class T>
ComputeKernel prepare_sum_of(const OpInstance& op, const Environment& environment) {
  const auto sum = environment.library->elementwise.of<T>().sum;
  const std::int64_t size = elements(op.results[0]);
  std::vector<const T*> inputs(op.operands.size());
  return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in<T>(arguments, i);
    sum(size, inputs.data(), static_cast<int>(inputs.size()), out<T>(arguments, 0), accumulate, threads);
  }};
}

void accumulate_f64(std::int64_t size, const double* x, double* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += x[i];
}

}  // namespace

ComputeKernel prepare_add(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_add_of<T>(op, environment); });
}

ComputeKernel prepare_sum(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_sum_of<T>(op, environment); });
}

ComputeKernel prepare_cast(const OpInstance& op, const Environment& environment) {
  const auto convert = environment.library->conversion.convert;
  const Element from = element_of(op.operands[0].dtype);
  const Element to = element_of(op.results[0].dtype);
  return {[=, size = elements(op.results[0]), threads = environment.threads](const KernelArguments& arguments) {
    convert(size, from, arguments.operands[0], to, arguments.results[0], threads);
  }};
}

ComputeKernel prepare_scale_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto scale = environment.library->elementwise.template of<T>().scale;
    return {[=, size = elements(op.results[0]), threads = environment.threads](const KernelArguments& arguments) {
      const auto factor = static_cast<float>(arguments.context.loss_scale);
      scale(size, factor, in<T>(arguments, 0), out<T>(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_fill_zero(const OpInstance& op, const Environment& /*environment*/) {
  return {[count = static_cast<std::size_t>(bytes(op.results[0]))](const KernelArguments& arguments) {
    std::memset(arguments.results[0], 0, count);
  }};
}

std::optional<std::string> unsupported_accumulate(const OpInstance& op) {
  const bool is_f64 = op.operands[0].dtype == DType::f64;
  if (is_f64 == (op.results[0].dtype == DType::f64)) return std::nullopt;
  return "adds f64 to f64 only";
}

ComputeKernel prepare_accumulate(const OpInstance& op, const Environment& environment) {
  const std::int64_t size = elements(op.results[0]);
  if (op.results[0].dtype == DType::f64) {
    return {[size](const KernelArguments& arguments) {
      accumulate_f64(size, in<double>(arguments, 0), out<double>(arguments, 0));
    }};
  }
  const auto accumulate = environment.library->conversion.accumulate;
  const Element from = element_of(op.operands[0].dtype);
  const Element to = element_of(op.results[0].dtype);
  return {[=, threads = environment.threads](const KernelArguments& arguments) {
    accumulate(size, from, arguments.operands[0], to, arguments.results[0], threads);
  }};
}

ComputeKernel prepare_activation(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto forward = environment.library->activation.template of<T>().forward;
    const ActivationKind kind = activation_kind(op);
    return {[=, size = elements(op.results[0]), threads = environment.threads](const KernelArguments& arguments) {
      forward(kind, size, in<T>(arguments, 0), out<T>(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_activation_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto gradient = environment.library->activation.template of<T>().gradient;
    const ActivationKind kind = activation_kind(op);
    const std::int64_t size = elements(op.results[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
      gradient(kind, size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

}  // namespace strata::cpu
