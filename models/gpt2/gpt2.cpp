#include "gpt2.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>

#include "common/layers.hpp"
#include "common/options.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace gpt2 {
namespace {

using namespace strata;
using models::size_option;

struct NamedSize {
  std::string_view name;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t embed;
};

/// The published sizes. All have context 1024 and vocabulary 50257.
constexpr std::array<NamedSize, 4> kSizes{{{"gpt2-124m", 12, 12, 768},
                                           {"gpt2-355m", 24, 16, 1024},
                                           {"gpt2-774m", 36, 20, 1280},
                                           {"gpt2-1558m", 48, 25, 1600}}};

/// The options of the plugin.
OptionSchema option_schema() {
  return {
      option::word(
          "size", "custom",
          "A published size, which gives layers, heads, embed, context (1024) and vocab (50257); fields that are set "
          "override it.",
          {"custom", "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m"}),
      size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
      size_option("heads", "Attention heads; must divide embed; 0: the size's, 12 for custom.", 4096),
      size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
      size_option("context", "Tokens of a sequence; 0: 1024.", 16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the tokenizer has, or the size's.", 16777216),
      option::number("dropout", 0.1, 0, 0.99, "Probability with which embeddings and residual branches are dropped."),
      option::number("attention_dropout", -1.0, -1, 0.99,
                     "Probability with which attention weights are dropped; -1: the same as dropout."),
      option::integer("window", 0, 0, 16777216,
                      "Tokens that attention sees: a token itself and the ones just before it; 0: all before it."),
      models::documents_option()};
}

}  // namespace

Settings settings_from(const Options& options) {
  Settings settings;
  for (const NamedSize& size : kSizes) {
    if (options.word("size") != size.name) continue;
    settings.layers = size.layers;
    settings.heads = size.heads;
    settings.embed = size.embed;
    settings.vocab = 50257;
  }
  const models::Overrides overrides(options);
  overrides.integer("layers", settings.layers);
  overrides.integer("heads", settings.heads);
  overrides.integer("embed", settings.embed);
  overrides.integer("context", settings.context);
  overrides.integer("vocab", settings.vocab);
  settings.dropout = options.number("dropout");
  settings.attention_dropout = options.number("attention_dropout");
  if (settings.attention_dropout < 0) settings.attention_dropout = settings.dropout;
  settings.window = options.integer("window");
  settings.documents = options.boolean("documents");
  models::require_equal_heads(settings.heads, settings.embed);
  return settings;
}

namespace {

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
  Value norm(Value x, const std::string& name) { return models::normalize(b_, x, {"embed"}, prefix_ + name, kNorm); }

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

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm blocks, learned
/// positions, GELU in the tanh form, biases everywhere, tied input and output embeddings.
class Gpt2 final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Gpt2(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override;
  void build(GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  Settings settings_;
};

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
  x = models::normalize(b, x, {"embed"}, "ln_f", kNorm);
  const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "lm_head");
  b.output("logits", logits);
  b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
}

class Gpt2Factory final : public FactoryOf<ModelFactory, Gpt2> {
 public:
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    const models::SmallSizes sizes(request);
    const Settings full = settings_from(options);
    const std::int64_t heads = sizes.several("heads");
    const std::int64_t head_dim = sizes.several("head_dim");
    const std::int64_t step = std::lcm(heads * head_dim, std::lcm(sizes.multiple("embed"), sizes.multiple("ffn")));
    const std::int64_t embed = step < 8 ? 8 / step * step : step;
    Options small = options;
    small.set("size", OptionValue(std::string("custom")));
    small.set("layers", OptionValue(sizes.blocks(full.layers)));
    small.set("heads", OptionValue(heads));
    small.set("embed", OptionValue(embed));
    small.set("context",
              OptionValue(std::lcm(std::lcm(sizes.multiple("seq"), sizes.multiple("pos")), std::int64_t{8})));
    // A window that still hides tokens of the short context.
    small.set("window", OptionValue(std::min<std::int64_t>(full.window, 3)));
    small.set("vocab", OptionValue(std::lcm(sizes.multiple("vocab"), std::int64_t{16})));
    return small;
  }

  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  Gpt2Format format_;
};

}  // namespace
}  // namespace gpt2

STRATA_PLUGIN(model, "gpt2", "0.1.0", "Apache-2.0", "GPT-2 as published, by name of size or by fields.",
              gpt2::Gpt2Factory);
