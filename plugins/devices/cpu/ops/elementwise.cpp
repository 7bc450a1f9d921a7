#include <cstring>
#include <vector>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "shared/broadcast.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cpu {
namespace {

std::optional<std::string> unsupported_repeated(const OpInstance& op) {
  if (op.accumulate && op.operands[0].dims != op.operands[1].dims) return "does not accumulate repeated factors";
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

constexpr auto kSum = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const auto sum = elementwise_kernels(environment.instruction_set()).of<T>().sum;
  const std::int64_t size = elements(op.results[0]);
  std::vector<const T*> inputs(op.operands.size());
  return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in<T>(arguments, i);
    sum(size, inputs.data(), static_cast<int>(inputs.size()), out<T>(arguments, 0), accumulate, threads);
  }};
};

/// y = x; with `accumulate`, y += x
PreparedKernel prepare_conversion(const OpInstance& op, const CpuEnvironment& environment, bool accumulate) {
  return call(conversion_kernels(environment.instruction_set()).convert, elements(op.results[0]),
              element_of(op.operands[0].dtype), Operand<void>{0}, element_of(op.results[0].dtype), Result<void>{0},
              accumulate, environment.threads());
}

std::optional<std::string> unsupported_accumulate(const OpInstance& op) {
  const bool is_f64 = op.operands[0].dtype == DType::f64;
  if (is_f64 == (op.results[0].dtype == DType::f64)) return std::nullopt;
  return "adds f64 to f64 only";
}

PreparedKernel prepare_accumulate(const OpInstance& op, const CpuEnvironment& environment) {
  if (op.results[0].dtype != DType::f64) return prepare_conversion(op, environment, true);
  return {[size = elements(op.results[0])](const KernelArguments& arguments) {
    const double* x = in<double>(arguments, 0);
    double* y = out<double>(arguments, 0);
    for (std::int64_t i = 0; i < size; ++i) y[i] += x[i];
  }};
}

}  // namespace

void register_elementwise(Registration& registration) {
  add(registration, {"add", "tt", "t", false, unsupported_repeated},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
        const ElementwiseKernels<T>& kernels = elementwise_kernels(environment.instruction_set()).of<T>();
        if (op.operands[0].dims == op.operands[1].dims) {
          return call(kernels.add, elements(op.results[0]), Operand<T>{0}, Operand<T>{1}, Result<T>{0},
                      environment.threads());
        }
        return call(kernels.add_broadcast, devices::broadcast_shape(op.operands[0], op.operands[1]), Operand<T>{0},
                    Operand<T>{1}, Result<T>{0}, environment.threads());
      });
  add(registration, {"multiply", "tt", "t", true, unsupported_repeated},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
        const ElementwiseKernels<T>& kernels = elementwise_kernels(environment.instruction_set()).of<T>();
        if (op.operands[0].dims == op.operands[1].dims) {
          return call(kernels.multiply, elements(op.results[0]), Operand<T>{0}, Operand<T>{1}, Result<T>{0},
                      op.accumulate, environment.threads());
        }
        return call(kernels.multiply_broadcast, devices::broadcast_shape(op.operands[0], op.operands[1]), Operand<T>{0},
                    Operand<T>{1}, Result<T>{0}, environment.threads());
      });
  add(registration, {"sum", "t*", "t", true}, kSum);
  add(registration, {"scale_gradient", "t", "t"},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
        const auto scale = elementwise_kernels(environment.instruction_set()).of<T>().scale;
        return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
          const auto factor = static_cast<float>(arguments.context.loss_scale);
          scale(size, factor, in<T>(arguments, 0), out<T>(arguments, 0), threads);
        }};
      });
  add(registration, {"normalize", "tf", "t", false, unsupported_repeated},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(elementwise_kernels(environment.instruction_set()).of<T>().normalize,
                    devices::broadcast_shape(op.operands[0], op.operands[1]),
                    static_cast<float>(op.attributes.number("epsilon")), Operand<T>{0}, Operand<float>{1}, Result<T>{0},
                    environment.threads());
      });
  add(registration, {"cast", "r", "r"}, [](const OpInstance& op, const CpuEnvironment& environment) {
    return prepare_conversion(op, environment, false);
  });
  add(registration, {ops::kAccumulate, "s", "s", false, unsupported_accumulate}, prepare_accumulate);
  add(registration, {ops::kFillZero, "", "s"}, [](const OpInstance& op) -> PreparedKernel {
    return {[count = static_cast<std::size_t>(bytes(op.results[0]))](const KernelArguments& arguments) {
      std::memset(arguments.results[0], 0, count);
    }};
  });
}

}  // namespace strata::cpu
