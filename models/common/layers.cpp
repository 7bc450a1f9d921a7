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

Value feed_forward(GraphBuilder& b, Value x, const std::string& prefix, const FeedForward& settings) {
  const auto widen = [&](const std::string& name) {
    return affine(
        b, x, prefix + name,
        {.weight = {"embed", "ffn"}, .bias = settings.bias ? Dims{"ffn"} : Dims{}, .result = {"batch", "seq", "ffn"}});
  };
  const std::string active_name = prefix + settings.names.activation;
  Value active;
  if (settings.names.gate.empty()) {
    active = b.activation(widen(settings.names.up), settings.activation, active_name);
  } else {
    const Value gate = widen(settings.names.gate);
    active =
        b.op("gated_activation", {gate, widen(settings.names.up)}, active_name, {{"kind", settings.activation}})[0];
  }
  return affine(b, active, prefix + settings.names.down,
                {.weight = {"ffn", "embed"},
                 .bias = settings.bias ? Dims{"embed"} : Dims{},
                 .result = {"batch", "seq", "embed"},
                 .deviation = settings.output_deviation});
}

}  // namespace strata::models
