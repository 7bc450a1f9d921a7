#include "common/layers.hpp"

#include <cmath>

namespace strata::models {

double residual_deviation(std::int64_t layers) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(layers));
}

Value affine(GraphBuilder& b, Value x, const std::string& name, const Affine& shape) {
  const Value weight = b.parameter(name + ".weight", shape.weight, Initialization::normal(shape.deviation), true,
                                   shape.weight_gradient_is_zero);
  const Value product = b.linear(x, weight, shape.result, name);
  if (shape.bias.empty()) return product;
  const Value bias =
      b.parameter(name + ".bias", shape.bias, Initialization::constant(0), false, shape.bias_gradient_is_zero);
  return b.add(product, bias, name + ".add_bias");
}

Value normalize(GraphBuilder& b, Value x, const Dim& dim, const std::string& name, const Norm& norm,
                bool gradient_is_zero) {
  const Value gain = b.parameter(name + ".weight", {dim}, Initialization::constant(1), false, gradient_is_zero);
  if (norm.kind == Norm::Kind::root_mean_square) {
    return b.op("rms_norm", {x, gain}, name, {{"epsilon", norm.epsilon}})[0];
  }
  const Value bias = b.parameter(name + ".bias", {dim}, Initialization::constant(0), false, gradient_is_zero);
  return b.layer_norm(x, gain, bias, norm.epsilon, name);
}

}  // namespace strata::models
