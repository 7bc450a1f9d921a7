#include "llama.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "common/layers.hpp"
#include "common/options.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace llama {
namespace {

using namespace strata;

/// Builds one block. Parameter names are those of the Hugging Face checkpoints.
class LayerBuilder {
 public:
  LayerBuilder(GraphBuilder& builder, const Settings& settings, const models::RopeTables& rope,
               std::optional<Value> documents, std::int64_t layer, std::int64_t window)
      : b_(builder),
        settings_(settings),
        norm_{.kind = models::Norm::Kind::root_mean_square, .epsilon = settings.norm_epsilon},
        rope_(rope),
        documents_(documents),
        prefix_("model.layers." + std::to_string(layer) + "."),
        window_(window) {}

  Value build(Value x) {
    x = b_.add(x, attention(norm(x, "input_layernorm")), prefix_ + "self_attn.residual");
    return b_.add(x, feed_forward(norm(x, "post_attention_layernorm")), prefix_ + "mlp.residual");
  }

 private:
  Value norm(Value x, const std::string& name) { return models::normalize(b_, x, "embed", prefix_ + name, norm_); }

  Value attention(Value x) {
    models::Attention attention{.names = {.query = "self_attn.q_proj",
                                          .key = "self_attn.k_proj",
                                          .value = "self_attn.v_proj",
                                          .output = "self_attn.o_proj",
                                          .attention = "self_attn",
                                          .query_norm = "self_attn.q_norm",
                                          .key_norm = "self_attn.k_norm"},
                                .projection_bias = settings_.qkv_bias,
                                .output_bias = settings_.output_bias,
                                .rope = rope_,
                                .window = window_,
                                .documents = documents_,
                                .dropout = settings_.attention_dropout,
                                .output_deviation = models::residual_deviation(settings_.layers)};
    if (settings_.kv_heads != settings_.heads) {
      attention.query_heads = {"kv_heads", "group"};
      attention.key_heads = {"kv_heads"};
    }
    if (settings_.qk_norm) attention.head_norm = norm_;
    return models::attend(b_, x, prefix_, attention);
  }

  Value feed_forward(Value x) {
    return models::feed_forward(
        b_, x, prefix_,
        {.names = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .activation = "mlp.gate", .down = "mlp.down_proj"},
         .activation = "silu",
         .bias = settings_.mlp_bias,
         .output_deviation = models::residual_deviation(settings_.layers)});
  }

  GraphBuilder& b_;
  const Settings& settings_;
  models::Norm norm_;
  const models::RopeTables& rope_;
  std::optional<Value> documents_;
  std::string prefix_;
  std::int64_t window_;
};

/// The Llama family: pre-norm blocks with root-mean-square norms, rotary positions, grouped queries and a gated
/// feed-forward block (Touvron et al., "LLaMA", 2023). The options cover Llama 2 and 3, Mistral, Qwen2, Qwen3 and
/// SmolLM.
class Llama final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Llama(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override;
  void build(GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  [[nodiscard]] std::int64_t window_of(std::int64_t layer) const;

  Settings settings_;
};

DimSizes Llama::sizes() const {
  DimSizes sizes{{"seq", settings_.context}};
  if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
  return sizes;
}

std::int64_t Llama::window_of(std::int64_t layer) const {
  const bool everywhere = settings_.window_layers < 0;
  return everywhere || layer >= settings_.layers - settings_.window_layers ? settings_.window : 0;
}

void Llama::build(GraphBuilder& b) const {
  b.define_dim("pos", settings_.context);
  b.define_dim("embed", settings_.embed);
  b.define_dim("head_dim", settings_.head_dim);
  b.define_dim("ffn", settings_.ffn);
  if (settings_.kv_heads == settings_.heads) {
    b.define_dim("heads", settings_.heads);
  } else {
    b.define_dim("kv_heads", settings_.kv_heads);
    b.define_dim("group", settings_.heads / settings_.kv_heads);
  }

  b.begin_block(0);
  const Value table = b.parameter("model.embed_tokens.weight", {"vocab", "embed"},
                                  Initialization::normal(models::kInitialDeviation), true);
  Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "model.embed_tokens");
  std::optional<Value> documents;
  if (settings_.documents) documents = b.input("documents", {"batch", "seq"});
  const Value positions = b.input("positions", documents ? Dims{"batch", "seq"} : Dims{"seq"});
  const models::RopeTables rope = models::rope_tables(b, settings_.rope, "pos", positions);

  for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
    b.begin_block(static_cast<int>(layer) + 1);
    x = LayerBuilder(b, settings_, rope, documents, layer, window_of(layer)).build(x);
  }

  b.begin_block(static_cast<int>(settings_.layers) + 1);
  x = models::normalize(b, x, "embed", "model.norm",
                        {.kind = models::Norm::Kind::root_mean_square, .epsilon = settings_.norm_epsilon});
  Value head = table;
  if (!settings_.tied) {
    head = b.parameter("lm_head.weight", {"vocab", "embed"}, Initialization::normal(models::kInitialDeviation), true);
  }
  const Value logits = b.linear(x, head, {"batch", "seq", "vocab"}, "lm_head");
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

class LlamaFactory final : public FactoryOf<ModelFactory, Llama> {
 public:
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const Settings full = settings_from(options);
    const models::SmallSizes sizes(request);
    const bool grouped = full.kv_heads != full.heads;
    const std::int64_t kv_heads = sizes.several(grouped ? "kv_heads" : "heads");
    const std::int64_t heads = grouped ? kv_heads * sizes.several("group") : kv_heads;
    Options small = options;
    small.set("size", OptionValue(std::string("custom")));
    small.set("layers", OptionValue(sizes.blocks(full.layers)));
    small.set("heads", OptionValue(heads));
    small.set("kv_heads", OptionValue(kv_heads));
    // Two pairs a head, because with one pair all angles of a position are equal.
    small.set("head_dim", OptionValue(std::lcm(sizes.multiple("head_dim"), std::int64_t{4})));
    small.set("embed", OptionValue(std::lcm(sizes.multiple("embed"), std::int64_t{8})));
    small.set("ffn", OptionValue(std::lcm(sizes.multiple("ffn"), std::int64_t{6})));
    small.set("context",
              OptionValue(std::lcm(std::lcm(sizes.multiple("seq"), sizes.multiple("pos")), std::int64_t{8})));
    small.set("vocab", OptionValue(std::lcm(sizes.multiple("vocab"), std::int64_t{16})));
    keep_kind(full, small);
    return small;
  }

  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  LlamaFormat format_;

  /// Sets what a published size implies and a custom one does not.
  static void keep_kind(const Settings& full, Options& small) {
    small.set("norm_epsilon", OptionValue(full.norm_epsilon));
    small.set("rope_base", OptionValue(full.rope.base));
    small.set("rope_factor", OptionValue(full.rope.scaling.factor));
    small.set("rope_original_context", OptionValue(full.rope.scaling.original_context));
    constexpr const char* kKinds[] = {"none", "linear", "llama3", "yarn"};
    small.set("rope_scaling", OptionValue(std::string(kKinds[static_cast<int>(full.rope.scaling.kind)])));
    small.set("tied", OptionValue(yes_or_no(full.tied)));
    small.set("qkv_bias", OptionValue(yes_or_no(full.qkv_bias)));
    small.set("output_bias", OptionValue(yes_or_no(full.output_bias)));
    small.set("mlp_bias", OptionValue(yes_or_no(full.mlp_bias)));
    small.set("qk_norm", OptionValue(yes_or_no(full.qk_norm)));
    // A window that still hides tokens of the short context, and a block with it.
    small.set("window", OptionValue(std::min<std::int64_t>(full.window, 3)));
    small.set("window_layers", OptionValue(std::min<std::int64_t>(full.window_layers, 1)));
  }
};

}  // namespace
}  // namespace llama

STRATA_PLUGIN(model, "llama", "0.1.0", "Apache-2.0",
              "The Llama family (Llama 2 and 3, Mistral, Qwen2, Qwen3, SmolLM), by name of size or by fields.",
              llama::LlamaFactory);
