#include "kernels/activation.cuh"
#include "ops/map_elements.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {
namespace {

/// Calls function.operator()<Kind>() with the kernels' type for the op's activation.
template <class Function>
PreparedOp with_activation(const OpInstance& op, const Function& function) {
  const std::string& kind = op.attributes.word("kind");
  if (kind == "gelu_tanh") return function.template operator()<GeluTanh>();
  if (kind == "relu") return function.template operator()<Relu>();
  if (kind == "silu") return function.template operator()<Silu>();
  throw ConfigurationError("activation '" + op.name + "': unknown kind '" + kind + "'");
}

}  // namespace

PreparedOp prepare_activation(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_activation(op,
                           [&]<class Kind>() -> PreparedOp { return {map_operands<T, T>(op, Activation<Kind>{})}; });
  });
}

PreparedOp prepare_activation_gradient(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_activation(
        op, [&]<class Kind>() -> PreparedOp { return {map_operands<T, T, T>(op, ActivationGradient<Kind>{})}; });
  });
}

}  // namespace strata::cuda
