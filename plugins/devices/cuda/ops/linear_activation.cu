#include <algorithm>
#include <array>
#include <memory>

#include "ops/einsum_product.hpp"
#include "ops/operations.hpp"

/// \file
/// Products with GELU: one kernel where the library has it as an epilogue, else a kernel for each.

namespace strata::cuda {
namespace {

using devices::EinsumPlan;

/// The library's product with an epilogue, or null where it has none for such tensors as they lie.
std::shared_ptr<MatrixProduct> product_with(MatrixEpilogue epilogue, const EinsumPlan& plan, const OpInstance& op,
                                            MatrixLibrary& library) {
  if (plan.pack_a || plan.pack_b || plan.unpack) return nullptr;
  MatrixProductShape shape = transposed_product(plan);
  shape.operand = op.operands[0].dtype;
  shape.result = op.results[0].dtype;
  shape.epilogue = epilogue;
  return library.product(shape);
}

/// One kernel and, for arrays that it doesn't take, the two that do the same.
struct FusedProduct {
  std::shared_ptr<MatrixProduct> product;
  bool swapped = false;  ///< the plan's a is the second operand
  PreparedOp first;
  PreparedOp second;

  [[nodiscard]] std::int64_t workspace_bytes() const {
    return std::max({product ? product->workspace_bytes() : 0, first.workspace_bytes, second.workspace_bytes});
  }

  /// False where the two kernels are needed.
  bool run(const KernelArguments& arguments, const void* bias, void* aux, Stream stream) const {
    if (!product) return false;
    const void* a = arguments.operands[swapped ? 1 : 0];
    const void* b = arguments.operands[swapped ? 0 : 1];
    const MatrixProductArguments arrays{b, a, bias, arguments.results[0], arguments.workspace, aux};
    if (!product->takes(arrays)) return false;
    product->run(arrays, stream);
    return true;
  }
};

std::optional<std::string> unsupported_fusion(const OpInstance& op) {
  if (op.attributes.word("kind") != "gelu_tanh") return "only gelu_tanh is part of a product";
  if (op.accumulate) return "a product with an activation is not added to anything";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported_linear_bias_activation(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear_bias(op);
}

std::optional<std::string> unsupported_linear_activation_gradient(const OpInstance& op) {
  if (auto reason = unsupported_fusion(op)) return reason;
  return unsupported_linear(op);
}

PreparedOp prepare_linear_bias_activation(const OpInstance& op, const Environment& environment) {
  const bool saves_input = op.results.size() > 1;
  OpInstance linear = op;
  linear.results = {op.results.back()};
  OpInstance activation = op;
  activation.operands = linear.results;
  activation.results.resize(1);

  FusedProduct fused;
  fused.first = prepare_linear_bias(linear, environment);
  fused.second = prepare_activation(activation, environment);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  if (devices::is_over_columns(plan, op.operands[2], op.results[0])) {
    const auto epilogue = saves_input ? MatrixEpilogue::gelu_aux_bias : MatrixEpilogue::gelu_bias;
    fused.product = product_with(epilogue, plan, op, *environment.matrices);
  }
  const auto launch = [fused](const KernelArguments& arguments, Stream stream) {
    void* u = arguments.results.back();
    if (fused.run(arguments, arguments.operands[2], arguments.results.size() > 1 ? u : nullptr, stream)) return;
    KernelArguments first = arguments;
    first.results = arguments.results.last(1);
    fused.first.launch(first, stream);
    const std::array<const void*, 1> read = {u};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second, stream);
  };
  return {launch, fused.workspace_bytes()};
}

PreparedOp prepare_linear_activation_gradient(const OpInstance& op, const Environment& environment) {
  OpInstance linear = op;
  linear.operands.resize(2);
  OpInstance gradient = op;
  gradient.operands = {op.results[0], op.operands[2]};

  FusedProduct fused;
  fused.first = prepare_linear(linear, environment);
  fused.second = prepare_activation_gradient(gradient, environment);
  const EinsumPlan plan = plan_of(op);
  fused.swapped = plan.swapped;
  fused.product = product_with(MatrixEpilogue::dgelu, plan, op, *environment.matrices);
  const auto launch = [fused](const KernelArguments& arguments, Stream stream) {
    // The library only reads aux here.
    if (fused.run(arguments, nullptr, const_cast<void*>(arguments.operands[2]), stream)) return;
    KernelArguments first = arguments;
    first.operands = arguments.operands.first(2);
    fused.first.launch(first, stream);
    const std::array<const void*, 2> read = {arguments.results[0], arguments.operands[2]};
    KernelArguments second = arguments;
    second.operands = read;
    fused.second.launch(second, stream);
  };
  return {launch, fused.workspace_bytes()};
}

}  // namespace strata::cuda
