#include "gpt2.hpp"

#include <string>

#include "common/attention.hpp"

namespace gpt2 {
namespace {

using namespace strata;

constexpr models::Norm kNorm{.kind = models::Norm::Kind::layer, .epsilon = 1e-5};

/// Builds one block. Parameter names follow the Hugging Face checkpoints, except that q, k and v are separate.
class BlockBuilder {
 public:
  BlockBuilder(GraphBuilder& builder, const Settings& settings, std::optional<Value> documents, std::int64_t layer)
      : b_(builder), settings_(settings), documents_(documents), prefix_("h." + std::to_string(layer) + ".") {}

  Value build(Value x) {
    x = residual(x, attention(norm(x, "ln_1")), "attn.residual");
    return residual(x, feed_forward(norm(x, "ln_2")), "mlp.residual");
  }

 private:
  Value norm(Value x, const std::string& name) { return models::normalize(b_, x, "embed", prefix_ + name, kNorm); }

  Value attention(Value x) {
    return models::attend(b_, x, prefix_,
                          {.names = {"attn.q", "attn.k", "attn.v", "attn.c_proj", "attn"},
                           .projection_bias = true,
                           .output_bias = true,
                           .window = settings_.window,
                           .documents = documents_,
                           .dropout = settings_.attention_dropout,
                           .output_deviation = models::residual_deviation(settings_.layers)});
  }

  Value feed_forward(Value x) {
    return models::feed_forward(b_, x, prefix_,
                                {.names = {.up = "mlp.c_fc", .activation = "mlp.gelu", .down = "mlp.c_proj"},
                                 .activation = "gelu_tanh",
                                 .bias = true,
                                 .output_deviation = models::residual_deviation(settings_.layers)});
  }

  Value residual(Value x, Value branch, const std::string& name) {
    return b_.add(x, b_.dropout(branch, settings_.dropout, prefix_ + name + ".dropout"), prefix_ + name);
  }

  GraphBuilder& b_;
  const Settings& settings_;
  std::optional<Value> documents_;
  std::string prefix_;
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
  const Value table =
      b.parameter("wte.weight", {"vocab", "embed"}, Initialization::normal(models::kInitialDeviation), true);
  const Value positions =
      b.parameter("wpe.weight", {"pos", "embed"}, Initialization::normal(models::kInitialDeviation), true);
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
  x = models::normalize(b, x, "embed", "ln_f", kNorm);
  const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "lm_head");
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

}  // namespace gpt2
