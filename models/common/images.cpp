#include "common/images.hpp"

namespace strata::models {

Value convolve(GraphBuilder& b, Value x, const std::string& name, const Convolution& shape) {
  const Value weight = b.parameter(name + ".weight", shape.weight, Initialization::normal(shape.deviation), true);
  const Attributes attributes{{"result", join(shape.result)}, {"stride", shape.stride}, {"padding", shape.padding}};
  const Value y = b.op("convolution", {x, weight}, name, attributes)[0];
  if (!shape.bias) return y;
  const Value bias = b.parameter(name + ".bias", {shape.weight[0]}, Initialization::constant(0), false);
  return b.add(y, bias, name + ".add_bias");
}

Value batch_norm(GraphBuilder& b, Value x, const Dim& channels, const std::string& name) {
  const auto zeros = Initialization::constant(0);
  const auto ones = Initialization::constant(1);
  const Value gain = b.parameter(name + ".weight", {channels}, ones, false);
  const Value bias = b.parameter(name + ".bias", {channels}, zeros, false);
  const Value mean = b.running_average(name + ".running_mean", {channels}, zeros);
  const Value variance = b.running_average(name + ".running_var", {channels}, ones);
  const bool is_training = b.mode() == GraphMode::training;
  Attributes attributes{{"epsilon", 1e-5}};
  if (is_training) attributes.set("momentum", 0.1);
  return b.op(is_training ? "batch_norm" : "batch_normalize", {x, gain, bias, mean, variance}, name, attributes)[0];
}

Value max_pool(GraphBuilder& b, Value x, const std::string& name, const Pooling& shape) {
  const Attributes attributes{
      {"result", join(shape.result)}, {"size", shape.window}, {"stride", shape.stride}, {"padding", shape.padding}};
  return b.op("max_pool", {x}, name, attributes)[0];
}

}  // namespace strata::models
