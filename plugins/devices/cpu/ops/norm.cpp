#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

// With kCentered the norm is layer norm, which has a bias and a mean. Without it, it is RMS norm.

/// The number of rows that are normalised, each of which has as many elements as `parameter`.
std::int64_t row_count(const OpInstance& op, const OperandDescription& parameter) {
  return elements(op.operands[0]) / elements(parameter);
}

template <bool kCentered>
const ByElement<NormKernels>& kernels_of(const CpuEnvironment& environment) {
  if constexpr (kCentered) return layer_norm_kernels(environment.instruction_set());
  return rms_norm_kernels(environment.instruction_set());
}

template <bool kCentered>
constexpr auto kNorm = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  return call(kernels_of<kCentered>(environment).template of<T>().forward, row_count(op, op.operands[1]),
              elements(op.operands[1]), static_cast<float>(op.attributes.number("epsilon")), Operand<T>{0},
              Operand<float>{1}, Operand<float>{kCentered ? 2 : kAbsent}, Result<T>{0},
              Result<float>{kCentered ? 1 : kAbsent}, Result<float>{kCentered ? 2 : 1}, environment.threads());
};

template <bool kCentered>
constexpr auto kNormInputGradient = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  return call(kernels_of<kCentered>(environment).template of<T>().input_gradient, row_count(op, op.operands[2]),
              elements(op.operands[2]), Operand<T>{0}, Operand<T>{1}, Operand<float>{2},
              Operand<float>{kCentered ? 3 : kAbsent}, Operand<float>{kCentered ? 4 : 3}, Result<T>{0}, op.accumulate,
              environment.threads());
};

template <bool kCentered>
constexpr auto kNormParameterGradient = []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
  return call(kernels_of<kCentered>(environment).template of<T>().parameter_gradient, row_count(op, op.results[0]),
              elements(op.results[0]), Operand<T>{0}, Operand<T>{1}, Operand<float>{kCentered ? 2 : kAbsent},
              Operand<float>{kCentered ? 3 : 2}, Result<float>{0}, Result<float>{kCentered ? 1 : kAbsent},
              op.accumulate, environment.threads());
};

}  // namespace

void register_norm(Registration& registration) {
  add(registration, {"layer_norm", "tff", "tff"}, kNorm<true>);
  add(registration, {"layer_norm_input_gradient", "ttfff", "t", true}, kNormInputGradient<true>);
  add(registration, {"layer_norm_parameter_gradient", "ttff", "ff", true}, kNormParameterGradient<true>);
  add(registration, {"rms_norm", "tf", "tf"}, kNorm<false>);
  add(registration, {"rms_norm_input_gradient", "ttff", "t", true}, kNormInputGradient<false>);
  add(registration, {"rms_norm_parameter_gradient", "ttf", "f", true}, kNormParameterGradient<false>);
}

}  // namespace strata::cpu
