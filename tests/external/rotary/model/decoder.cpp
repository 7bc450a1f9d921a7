#include "model/decoder.hpp"

#include <cmath>
#include <string>

#include "model/rotary_graph.hpp"

namespace rotary {
namespace {

using namespace strata;

constexpr double kEpsilon = 1e-5;
constexpr double kInitialDeviation = 0.02;

const Dims kStream{"batch", "seq", "embed"};
const Dims kHeads{"batch", "seq", "heads", "head_dim"};

Value norm(GraphBuilder& b, Value x, const std::string& name) {
  const Value gain = b.parameter(name + ".weight", {"embed"}, Initialization::constant(1), false);
  const Value bias = b.parameter(name + ".bias", {"embed"}, Initialization::constant(0), false);
  return b.layer_norm(x, gain, bias, kEpsilon, name);
}

/// Adds the nodes of one block to the graph.
class BlockBuilder {
 public:
  BlockBuilder(GraphBuilder& builder, const Tables& tables, std::int64_t layer, std::int64_t layers)
      : b_(builder),
        tables_(tables),
        prefix_("layers." + std::to_string(layer) + "."),
        // Residual projections start smaller, so that the variance of the residual stream does not grow with depth.
        residual_deviation_(kInitialDeviation / std::sqrt(2.0 * static_cast<double>(layers))) {}

  Value build(Value x) {
    x = b_.add(x, attention(norm(b_, x, prefix_ + "attention_norm")), prefix_ + "attention_residual");
    return b_.add(x, feed_forward(norm(b_, x, prefix_ + "ffn_norm")), prefix_ + "ffn_residual");
  }

 private:
  Value project(Value x, const Dims& weight, const Dims& result, double deviation, const std::string& name) {
    const std::string full = prefix_ + name;
    return b_.linear(x, b_.parameter(full + ".weight", weight, Initialization::normal(deviation), true), result, full);
  }

  Value attention(Value x) {
    const auto heads = [&](const std::string& name) {
      return project(x, {"embed", "heads", "head_dim"}, kHeads, kInitialDeviation, name);
    };
    const Value q = rotate(b_, heads("wq"), tables_, prefix_ + "wq.rotary");
    const Value k = rotate(b_, heads("wk"), tables_, prefix_ + "wk.rotary");
    const Value mixed = b_.attention(q, k, heads("wv"), {.causal = true}, prefix_ + "attention");
    return project(mixed, {"heads", "head_dim", "embed"}, kStream, residual_deviation_, "wo");
  }

  Value feed_forward(Value x) {
    const Value up = project(x, {"embed", "ffn"}, {"batch", "seq", "ffn"}, kInitialDeviation, "w1");
    return project(b_.activation(up, "gelu_tanh", prefix_ + "gelu"), {"ffn", "embed"}, kStream, residual_deviation_,
                   "w2");
  }

  GraphBuilder& b_;
  const Tables& tables_;
  std::string prefix_;
  double residual_deviation_;
};

}  // namespace

DimSizes Decoder::sizes() const {
  DimSizes sizes{{"seq", settings_.context}};
  if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
  return sizes;
}

void Decoder::build(GraphBuilder& b) const {
  b.define_dim("embed", settings_.embed);
  b.define_dim("heads", settings_.heads);
  b.define_dim("head_dim", settings_.embed / settings_.heads);
  b.define_dim("ffn", 4 * settings_.embed);
  const Tables tables = rotary_tables(b, settings_.base);

  b.begin_block(0);
  const Value embedding =
      b.parameter("embedding.weight", {"vocab", "embed"}, Initialization::normal(kInitialDeviation), true);
  Value x = b.embedding(embedding, b.input("tokens", {"batch", "seq"}), "embedding");

  for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
    b.begin_block(static_cast<int>(layer) + 1);
    x = BlockBuilder(b, tables, layer, settings_.layers).build(x);
  }

  b.begin_block(static_cast<int>(settings_.layers) + 1);
  const Value logits = b.linear(norm(b, x, "norm"), embedding, {"batch", "seq", "vocab"}, "output");
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

}  // namespace rotary
