#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/huggingface.hpp"
#include "common/layers.hpp"
#include "common/options.hpp"
#include "strata/error.hpp"
#include "strata/huggingface.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace gpt2 {
namespace {

using namespace strata;
using models::size_option;

/// Sizes and dropout rates of one GPT-2.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t context = 1024;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// True if attention stays inside a document and positions start anew in each.
  bool documents = false;
};

/// The published sizes. All have context 1024 and vocabulary 50257.
std::vector<models::NamedSize<Settings>> named_sizes() {
  return {{"gpt2-124m", {.layers = 12, .heads = 12, .embed = 768, .vocab = 50257}},
          {"gpt2-355m", {.layers = 24, .heads = 16, .embed = 1024, .vocab = 50257}},
          {"gpt2-774m", {.layers = 36, .heads = 20, .embed = 1280, .vocab = 50257}},
          {"gpt2-1558m", {.layers = 48, .heads = 25, .embed = 1600, .vocab = 50257}}};
}

/// The options of the plugin.
OptionSchema option_schema() {
  return {
      models::named_size_option(
          named_sizes(),
          "A published size, which gives layers, heads, embed, context (1024) and vocab (50257); fields that are set "
          "override it."),
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

/// Settings of the size that the options name, with the options that override it. \throws ConfigurationError if
/// the number of heads does not divide embed.
Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
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

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"seq", settings_.context}};
    if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
    return sizes;
  }
  void build(GraphBuilder& b) const override {
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
  [[nodiscard]] std::optional<Generation> generation() const override {
    return Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

  static Options shrink(const Options& options, const ShrinkRequest& request) {
    const Settings full = settings_from(options);
    models::SmallOptions small(options, request);
    small.set("layers", small.blocks(full.layers));
    small.set_equal_heads({"embed", "ffn"});
    small.set("context", small.multiple({"seq", "pos"}, 8));
    // A window that still hides tokens of the short context.
    small.set("window", std::min<std::int64_t>(full.window, 3));
    small.set("vocab", small.multiple({"vocab"}, 16));
    return small.options();
  }

 private:
  Settings settings_;
};

constexpr const char* kPrefix = "transformer.";

OptionValue size_of(const HuggingFaceFields& config, const std::string& field) {
  return OptionValue(models::checked_size(config, field));
}

/// Refuses what this GPT-2 does not compute.
void require_known(const HuggingFaceFields& config, std::int64_t embed) {
  const std::string activation = config.word("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw OptionError("activation_function",
                      "found \"" + activation + "\"; accepted: \"gelu_new\", \"gelu_pytorch_tanh\"");
  }
  config.require("n_inner", OptionValue(4 * embed));
  config.require("layer_norm_epsilon", OptionValue(1e-5));
  config.require("scale_attn_weights", OptionValue(true));
  config.require("scale_attn_by_inverse_layer_idx", OptionValue(false));
  config.require("add_cross_attention", OptionValue(false));
  config.require("tie_word_embeddings", OptionValue(true));
  config.require("embd_pdrop", OptionValue(config.number("resid_pdrop", 0.1)));
  models::require_plain_weights(config);
}

/// Lists the tensors of the Hugging Face model.
class TensorList {
 public:
  explicit TensorList(std::int64_t embed) : embed_(embed) {}

  void add(const std::string& parameter, Shape shape) {
    list_.push_back({.name = kPrefix + parameter, .parameter = parameter, .shape = std::move(shape)});
  }

  void add_layer(const std::string& layer) {
    for (const char* norm : {"ln_1", "ln_2"}) add_with_bias(layer + norm, {embed_});
    const std::string packed = kPrefix + layer + "attn.c_attn";
    std::int64_t begin = 0;
    for (const char* part : {"attn.q", "attn.k", "attn.v"}) {
      list_.push_back({.name = packed + ".weight",
                       .parameter = layer + part + ".weight",
                       .shape = {embed_, 3 * embed_},
                       .slice_dim = 1,
                       .slice_begin = begin,
                       .slice_size = embed_});
      list_.push_back({.name = packed + ".bias",
                       .parameter = layer + part + ".bias",
                       .shape = {3 * embed_},
                       .slice_begin = begin,
                       .slice_size = embed_});
      begin += embed_;
    }
    add_with_bias(layer + "attn.c_proj", {embed_, embed_});
    add_with_bias(layer + "mlp.c_fc", {embed_, 4 * embed_});
    add_with_bias(layer + "mlp.c_proj", {4 * embed_, embed_});
  }

  /// A weight and a bias with as many elements as the weight has columns.
  void add_with_bias(const std::string& name, const Shape& weight) {
    add(name + ".weight", weight);
    add(name + ".bias", {weight.back()});
  }

  std::vector<HuggingFaceTensor> take() { return std::move(list_); }

 private:
  std::int64_t embed_;
  std::vector<HuggingFaceTensor> list_;
};

/// GPT-2 as transformers' GPT2LMHeadModel publishes it. Queries, keys and values are one matrix there.
class Gpt2Format final : public HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<Options> options(const HuggingFaceFields& config) const override {
    if (config.word("model_type", "") != "gpt2") return std::nullopt;
    const std::int64_t embed = config.integer("n_embd");
    if (embed < 1 || embed > 1048576) {
      throw OptionError("n_embd", "found " + std::to_string(embed) + "; accepted: 1 to 1048576");
    }
    require_known(config, embed);
    Options options;
    options.set("layers", size_of(config, "n_layer"));
    options.set("heads", size_of(config, "n_head"));
    options.set("embed", OptionValue(embed));
    options.set("context", size_of(config, config.has_value("n_positions") ? "n_positions" : "n_ctx"));
    options.set("vocab", size_of(config, "vocab_size"));
    options.set("dropout", OptionValue(config.number("resid_pdrop", 0.1)));
    options.set("attention_dropout", OptionValue(config.number("attn_pdrop", 0.1)));
    return options;
  }

  [[nodiscard]] HuggingFaceFields config(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    if (settings.window > 0) {
      throw OptionError("window", "found " + std::to_string(settings.window) +
                                      "; accepted: 0, since a published GPT-2 has no window");
    }
    return HuggingFaceFields({{"architectures", OptionValue(std::vector<std::string>{"GPT2LMHeadModel"})},
                              {"model_type", OptionValue(std::string("gpt2"))},
                              {"activation_function", OptionValue(std::string("gelu_new"))},
                              {"n_layer", OptionValue(settings.layers)},
                              {"n_head", OptionValue(settings.heads)},
                              {"n_embd", OptionValue(settings.embed)},
                              {"n_inner", std::nullopt},
                              {"n_positions", OptionValue(settings.context)},
                              {"n_ctx", OptionValue(settings.context)},
                              {"vocab_size", OptionValue(models::size_of_dim("vocab", settings.vocab, sizes))},
                              {"layer_norm_epsilon", OptionValue(1e-5)},
                              {"resid_pdrop", OptionValue(settings.dropout)},
                              {"embd_pdrop", OptionValue(settings.dropout)},
                              {"attn_pdrop", OptionValue(settings.attention_dropout)},
                              {"tie_word_embeddings", OptionValue(true)}});
  }

  [[nodiscard]] HuggingFaceTensors tensors(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    TensorList list(settings.embed);
    list.add("wte.weight", {models::size_of_dim("vocab", settings.vocab, sizes), settings.embed});
    list.add("wpe.weight", {settings.context, settings.embed});
    for (std::int64_t layer = 0; layer < settings.layers; ++layer) list.add_layer("h." + std::to_string(layer) + ".");
    list.add_with_bias("ln_f", {settings.embed});
    return {.tensors = list.take(),
            .copies = {{"lm_head.weight", "transformer.wte.weight"}},
            .ignored = {"*.attn.bias", "*.attn.masked_bias"},
            .optional_prefix = kPrefix};
  }

  [[nodiscard]] std::vector<std::string> families() const override { return {"gpt2"}; }
};

using Factory = models::FactoryWithFormat<Gpt2, Gpt2Format>;

}  // namespace
}  // namespace gpt2

STRATA_PLUGIN(model, "gpt2", "0.1.0", "Apache-2.0", "GPT-2 as published, by name of size or by fields.", gpt2::Factory);
