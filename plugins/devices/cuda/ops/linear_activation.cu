#include <algorithm>
#include <array>
#include <memory>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/activation.cuh"
#include "launchers/einsum_product.hpp"
#include "ops/activation.hpp"
#include "ops/linear.hpp"

/// \file
/// Products with GELU: one kernel if the library offers GELU as an epilogue, otherwise two kernels.

namespace strata::cuda {
namespace {

using devices::EinsumPlan;

/// The library's product with an epilogue. Null if it has none for tensors with this layout.
std::shared_ptr<MatrixProduct> product_with(MatrixEpilogue epilogue, const EinsumPlan& plan, const OpInstance& op,
                                            MatrixLibrary& library) {
  if (plan.pack_a || plan.pack_b || plan.unpack) return nullptr;
  MatrixProductShape shape = transposed_product(plan);
  shape.operand = op.operands[0].dtype;
  shape.result = op.results[0].dtype;
  shape.epilogue = epilogue;
  return library.product(shape);
}

/// The fused kernel, and the two kernels that replace it for arrays that it does not support.
struct FusedProduct {
  std::shared_ptr<MatrixProduct> product;
  bool swapped = false;  ///< the plan's a is the second operand
  PreparedKernel first;
  PreparedKernel second;

  [[nodiscard]] std::int64_t workspace_bytes() const {
    return std::max({product ? product->workspace_bytes() : 0, first.workspace_bytes, second.workspace_bytes});
  }

  /// Runs the fused kernel. \return false if the two kernels are needed.
  bool run(const KernelArguments& arguments, const void* bias, void* aux) const {
    if (!product) return false;
    const void* a = arguments.operands[swapped ? 1 : 0];
    const void* b = arguments.operands[swapped ? 0 : 1];
    const MatrixProductArguments arrays{b, a, bias, arguments.results[0], arguments.workspace, aux};
    if (!product->takes(arrays)) return false;
    product->run(arrays, arguments.stream);
    return true;
  }
};

std::optional<std::string> unsupported_fusion(const OpInstance& op) {
  if (op.attributes.word("kind") != GeluTanh::kKind) return "only gelu_tanh is part of a product";
  if (op.accumulate) return "a product with an activation is not added to anything";
  return std::nullopt;
}

std::optional<std::string> unsupported_linear_bias_activation(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear_bias(op);
}

std::optional<std::string> unsupported_linear_activation_gradient(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear(op);
}

PreparedKernel prepare_linear_bias_activation(const OpInstance& op, const CudaEnvironment& environment) {
  const bool saves_input = op.results.size() > 1;
  OpInstance linear = op;
  linear.results = {op.results.back()};
  OpInstance activation = op;
  activation.operands = linear.results;
  activation.results.resize(1);

  FusedProduct fused;
  fused.first = prepare_linear(linear, environment);
  fused.second = prepare_activation(activation, environment);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  if (devices::is_over_columns(plan, op.operands[2], op.results[0])) {
    const auto epilogue = saves_input ? MatrixEpilogue::gelu_aux_bias : MatrixEpilogue::gelu_bias;
    fused.product = product_with(epilogue, plan, op, environment.matrices());
  }
  const auto launch = [fused](const KernelArguments& arguments) {
    void* u = arguments.results.back();
    if (fused.run(arguments, arguments.operands[2], arguments.results.size() > 1 ? u : nullptr)) return;
    KernelArguments first = arguments;
    first.results = arguments.results.last(1);
    fused.first.launch(first);
    const std::array<const void*, 1> read = {u};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second);
  };
  return {launch, fused.workspace_bytes()};
}

PreparedKernel prepare_linear_activation_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  OpInstance linear = op;
  linear.operands.resize(2);
  OpInstance gradient = op;
  gradient.operands = {op.results[0], op.operands[2]};

  FusedProduct fused;
  fused.first = prepare_linear(linear, environment);
  fused.second = prepare_activation_gradient(gradient, environment);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  fused.product = product_with(MatrixEpilogue::dgelu, plan, op, environment.matrices());
  const auto launch = [fused](const KernelArguments& arguments) {
    // The library only reads aux here.
    if (fused.run(arguments, nullptr, const_cast<void*>(arguments.operands[2]))) return;
    KernelArguments first = arguments;
    first.operands = arguments.operands.first(2);
    fused.first.launch(first);
    const std::array<const void*, 2> read = {arguments.results[0], arguments.operands[2]};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second);
  };
  return {launch, fused.workspace_bytes()};
}

}  // namespace

void register_linear_activation(Registration& registration) {
  // "Accumulates" is set so that unsupported_fusion() is asked about accumulating instances, which it refuses.
  registration.add(kernel({"linear_bias_activation", "ttt", "t*", prepare_linear_bias_activation, true,
                           unsupported_linear_bias_activation}));
  registration.add(kernel({"linear_activation_gradient", "ttt", "t", prepare_linear_activation_gradient, true,
                           unsupported_linear_activation_gradient}));
}

}  // namespace strata::cuda
