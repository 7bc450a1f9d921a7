#include "gpt2.hpp"

#include <cmath>
#include <string>

namespace gpt2 {
namespace {

using namespace strata;

constexpr double kEpsilon = 1e-5;
constexpr double kInitialDeviation = 0.02;

const Dims kStream{"batch", "seq", "embed"};
const Dims kHeads{"batch", "seq", "heads", "head_dim"};

/// Builds one block. Parameter names follow the published checkpoints, except that q, k and v are separate.
class BlockBuilder {
 public:
  BlockBuilder(GraphBuilder& builder, const Settings& settings, std::optional<Value> documents, std::int64_t layer)
      : b_(builder),
        settings_(settings),
        documents_(documents),
        prefix_("h." + std::to_string(layer) + "."),
        // Residual projections start smaller, so that the variance of the residual stream does not grow with depth.
        residual_deviation_(kInitialDeviation / std::sqrt(2.0 * static_cast<double>(settings.layers))) {}

  Value build(Value x) {
    x = residual(x, attention(norm(x, "ln_1")), "attn.residual");
    return residual(x, feed_forward(norm(x, "ln_2")), "mlp.residual");
  }

 private:
  Value norm(Value x, const std::string& name) {
    const std::string full = prefix_ + name;
    const Value gain = b_.parameter(full + ".weight", {"embed"}, Initialization::constant(1), false);
    const Value bias = b_.parameter(full + ".bias", {"embed"}, Initialization::constant(0), false);
    return b_.layer_norm(x, gain, bias, kEpsilon, full);
  }

  Value affine(Value x, const Dims& weight, const Dims& bias, const Dims& result, double deviation,
               const std::string& name, bool bias_gradient_is_zero = false, bool weight_gradient_is_zero = false) {
    const std::string full = prefix_ + name;
    const Value product = b_.linear(
        x, b_.parameter(full + ".weight", weight, Initialization::normal(deviation), true, weight_gradient_is_zero),
        result, full);
    return b_.add(product,
                  b_.parameter(full + ".bias", bias, Initialization::constant(0), false, bias_gradient_is_zero),
                  full + ".add_bias");
  }

  Value attention(Value x) {
    // A token that sees only itself has the probability 1 for itself, whatever its query and key.
    const bool sees_only_itself = settings_.window == 1;
    const auto project = [&](const std::string& name, bool bias_gradient_is_zero, bool weight_gradient_is_zero) {
      return affine(x, {"embed", "heads", "head_dim"}, {"heads", "head_dim"}, kHeads, kInitialDeviation, "attn." + name,
                    bias_gradient_is_zero, weight_gradient_is_zero);
    };
    const Value q = project("q", sees_only_itself, sees_only_itself);
    // The key bias shifts all scores of a row alike, so its gradient is always zero.
    const Value k = project("k", true, sees_only_itself);
    const Value v = project("v", false, false);
    const Value o =
        b_.attention(q, k, v, true, settings_.attention_dropout, prefix_ + "attn", settings_.window, documents_);
    return affine(o, {"heads", "head_dim", "embed"}, {"embed"}, kStream, residual_deviation_, "attn.c_proj");
  }

  Value feed_forward(Value x) {
    const Value up = affine(x, {"embed", "ffn"}, {"ffn"}, {"batch", "seq", "ffn"}, kInitialDeviation, "mlp.c_fc");
    const Value active = b_.activation(up, "gelu_tanh", prefix_ + "mlp.gelu");
    return affine(active, {"ffn", "embed"}, {"embed"}, kStream, residual_deviation_, "mlp.c_proj");
  }

  Value residual(Value x, Value branch, const std::string& name) {
    return b_.add(x, b_.dropout(branch, settings_.dropout, prefix_ + name + ".dropout"), prefix_ + name);
  }

  GraphBuilder& b_;
  const Settings& settings_;
  std::optional<Value> documents_;
  std::string prefix_;
  double residual_deviation_;
};

}  // namespace

DimSizes Gpt2::sizes() const {
  DimSizes sizes{{"seq", settings_.context}};
  if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
  return sizes;
}

void Gpt2::build(GraphBuilder& b) const {
  b.define_dim("pos", settings_.context);
  b.define_dim("embed", settings_.embed);
  b.define_dim("heads", settings_.heads);
  b.define_dim("head_dim", settings_.embed / settings_.heads);
  b.define_dim("ffn", 4 * settings_.embed);

  b.begin_block(0);
  const Value table = b.parameter("wte.weight", {"vocab", "embed"}, Initialization::normal(kInitialDeviation), true);
  const Value positions = b.parameter("wpe.weight", {"pos", "embed"}, Initialization::normal(kInitialDeviation), true);
  const Value tokens = b.input("tokens", {"batch", "seq"});
  const Value token = b.embedding(table, tokens, "wte");
  std::optional<Value> documents;
  if (settings_.documents) documents = b.input("documents", {"batch", "seq"});
  const Dims position_dims = documents ? Dims{"batch", "seq"} : Dims{"seq"};
  const Value position = b.embedding(positions, b.input("positions", position_dims), "wpe");
  Value x = b.dropout(b.add(token, position, "embedding"), settings_.dropout, "embedding.dropout");

  for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
    b.begin_block(static_cast<int>(layer) + 1);
    x = BlockBuilder(b, settings_, documents, layer).build(x);
  }

  b.begin_block(static_cast<int>(settings_.layers) + 1);
  const Value gain = b.parameter("ln_f.weight", {"embed"}, Initialization::constant(1), false);
  const Value bias = b.parameter("ln_f.bias", {"embed"}, Initialization::constant(0), false);
  x = b.layer_norm(x, gain, bias, kEpsilon, "ln_f");
  const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "lm_head");
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

}  // namespace gpt2
