#include "kernels/conversion.hpp"

#include <cstring>

#include "cpu_kernel.hpp"
#include "operands.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_cast(const OpInstance& op, const CpuEnvironment& environment) {
  const auto convert = conversion_kernels(environment.instruction_set()).convert;
  const Element from = element_of(op.operands[0].dtype);
  const Element to = element_of(op.results[0].dtype);
  return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
    convert(size, from, arguments.operands[0], to, arguments.results[0], threads);
  }};
}

PreparedKernel prepare_fill_zero(const OpInstance& op, const CpuEnvironment& /*environment*/) {
  return {[count = static_cast<std::size_t>(bytes(op.results[0]))](const KernelArguments& arguments) {
    std::memset(arguments.results[0], 0, count);
  }};
}

std::optional<std::string> unsupported_accumulate(const OpInstance& op) {
  const bool is_f64 = op.operands[0].dtype == DType::f64;
  if (is_f64 == (op.results[0].dtype == DType::f64)) return std::nullopt;
  return "adds f64 to f64 only";
}

void accumulate_f64(std::int64_t size, const double* x, double* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += x[i];
}

PreparedKernel prepare_accumulate(const OpInstance& op, const CpuEnvironment& environment) {
  const std::int64_t size = elements(op.results[0]);
  if (op.results[0].dtype == DType::f64) {
    return {[size](const KernelArguments& arguments) {
      accumulate_f64(size, in<double>(arguments, 0), out<double>(arguments, 0));
    }};
  }
  const auto accumulate = conversion_kernels(environment.instruction_set()).accumulate;
  const Element from = element_of(op.operands[0].dtype);
  const Element to = element_of(op.results[0].dtype);
  return {[=, threads = environment.threads()](const KernelArguments& arguments) {
    accumulate(size, from, arguments.operands[0], to, arguments.results[0], threads);
  }};
}

}  // namespace

void register_conversion(Registration& registration) {
  registration.add(kernel({"cast", "r", "r", prepare_cast}));
  registration.add(kernel({ops::kAccumulate, "s", "s", prepare_accumulate, false, unsupported_accumulate}));
  registration.add(kernel({ops::kFillZero, "", "s", prepare_fill_zero}));
}

}  // namespace strata::cpu
