#include "ops/op_base.hpp"

namespace strata {

void register_core_ops(OpRegistry& registry) {
  ops::register_embedding(registry);
  ops::register_linear(registry);
  ops::register_elementwise(registry);
  ops::register_layer_norm(registry);
  ops::register_activation(registry);
  ops::register_dropout(registry);
  ops::register_attention(registry);
  ops::register_cross_entropy(registry);
  ops::register_quantization(registry);
}

}  // namespace strata
