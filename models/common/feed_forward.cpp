#include "common/feed_forward.hpp"

namespace strata::models {

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
