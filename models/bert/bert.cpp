#include "bert.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/classification.hpp"
#include "common/layers.hpp"
#include "common/options.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace bert {
namespace {

using namespace strata;
using models::size_option;

/// The published sizes. All have context 512, and ffn = 4 embed.
std::vector<models::NamedSize<Settings>> named_sizes() {
  return {{"bert-tiny", {.layers = 2, .heads = 2, .embed = 128}},
          {"bert-small", {.layers = 4, .heads = 8, .embed = 512}},
          {"bert-base", {.layers = 12, .heads = 12, .embed = 768}},
          {"bert-large", {.layers = 24, .heads = 16, .embed = 1024}}};
}

OptionSchema option_schema() {
  return {
      models::named_size_option(named_sizes(),
                                "A published size, which gives layers, heads, embed, ffn and context (512); fields "
                                "that are set override it."),
      size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
      size_option("heads", "Attention heads; must divide embed; 0: the size's, 12 for custom.", 4096),
      size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
      size_option("ffn", "Inner width of the feed-forward block; 0: 4 embed.", 4194304),
      size_option("context", "Tokens of a sequence; 0: 512.", 16777216),
      size_option("vocab", "Rows of the embedding; 0: as many as the data has.", 16777216),
      option::integer("segments", 2, 1, 65536, "Kinds of tokens, such as the two sentences of a pair."),
      option::integer("classes", 0, 0, 16777216,
                      "Classes of a classification of whole sequences; 0: the model predicts masked tokens."),
      option::word("activation", "gelu", "The activation of the feed-forward block.", {"gelu", "gelu_tanh", "relu"}),
      option::number("dropout", 0.1, 0, 0.99, "Probability with which embeddings and branches are dropped."),
      option::number("attention_dropout", -1.0, -1, 0.99,
                     "Probability with which attention weights are dropped; -1: the same as dropout."),
      option::number("norm_epsilon", 1e-12, 0, 1, "Added to the variance in norms.")};
}

}  // namespace

Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
  const models::Overrides overrides(options);
  overrides.integer("layers", settings.layers);
  overrides.integer("heads", settings.heads);
  overrides.integer("embed", settings.embed);
  settings.ffn = 4 * settings.embed;
  overrides.integer("ffn", settings.ffn);
  overrides.integer("context", settings.context);
  overrides.integer("vocab", settings.vocab);
  settings.segments = options.integer("segments");
  settings.classes = options.integer("classes");
  settings.activation = options.word("activation");
  settings.dropout = options.number("dropout");
  settings.attention_dropout = options.number("attention_dropout");
  if (settings.attention_dropout < 0) settings.attention_dropout = settings.dropout;
  settings.norm_epsilon = options.number("norm_epsilon");
  models::require_equal_heads(settings.heads, settings.embed);
  return settings;
}

namespace {

const Dims kStream{"batch", "seq", "embed"};

/// Appends the parts of the model. Parameter names are those of the Hugging Face checkpoints.
class BertBuilder {
 public:
  BertBuilder(GraphBuilder& builder, const Settings& settings)
      : b_(builder),
        settings_(settings),
        norm_{.kind = models::Norm::Kind::layer, .epsilon = settings.norm_epsilon},
        words_(table("word_embeddings", "vocab")) {}

  void build() {
    b_.begin_block(0);
    Value x = embeddings();
    // Padding sees padding only, so no row of probabilities is empty.
    mask_ = b_.input("mask", {"batch", "seq"});
    for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
      b_.begin_block(static_cast<int>(layer) + 1);
      x = block(x, "bert.encoder.layer." + std::to_string(layer) + ".");
    }
    b_.begin_block(static_cast<int>(settings_.layers) + 1);
    settings_.classes > 0 ? classify(x) : predict_tokens(x);
  }

 private:
  Value table(const std::string& name, const Dim& rows) {
    return b_.parameter("bert.embeddings." + name + ".weight", {rows, "embed"},
                        Initialization::normal(models::kInitialDeviation), true);
  }

  Value embeddings() {
    const std::string name = "bert.embeddings.";
    const Value token = b_.embedding(words_, b_.input("tokens", {"batch", "seq"}), name + "word_embeddings");
    const Value segment = b_.embedding(table("token_type_embeddings", "segments"),
                                       b_.input("segments", {"batch", "seq"}), name + "token_type_embeddings");
    const Value position =
        b_.embedding(table("position_embeddings", "pos"), b_.input("positions", {"seq"}), name + "position_embeddings");
    const Value sum = b_.add(b_.add(token, segment, name + "typed"), position, name + "sum");
    return b_.dropout(models::normalize(b_, sum, {"embed"}, name + "LayerNorm", norm_), settings_.dropout,
                      name + "dropout");
  }

  Value block(Value x, const std::string& prefix) {
    x = branch(x, attention(x, prefix + "attention."), prefix + "attention.output.");
    const Value inner =
        models::affine(b_, x, prefix + "intermediate.dense",
                       {.weight = {"embed", "ffn"}, .bias = {"ffn"}, .result = {"batch", "seq", "ffn"}});
    const Value active = b_.activation(inner, settings_.activation, prefix + "intermediate.activation");
    const Value outer = models::affine(b_, active, prefix + "output.dense",
                                       {.weight = {"ffn", "embed"}, .bias = {"embed"}, .result = kStream});
    return branch(x, outer, prefix + "output.");
  }

  /// The norm comes after the branch.
  Value branch(Value x, Value y, const std::string& prefix) {
    const Value sum = b_.add(x, b_.dropout(y, settings_.dropout, prefix + "dropout"), prefix + "residual");
    return models::normalize(b_, sum, {"embed"}, prefix + "LayerNorm", norm_);
  }

  Value attention(Value x, const std::string& prefix) {
    const auto project = [&](const std::string& name, bool bias_gradient_is_zero) {
      return models::affine(b_, x, prefix + "self." + name,
                            {.weight = {"embed", "heads", "head_dim"},
                             .bias = {"heads", "head_dim"},
                             .result = {"batch", "seq", "heads", "head_dim"},
                             .bias_gradient_is_zero = bias_gradient_is_zero});
    };
    const Value q = project("query", false);
    const Value k = project("key", true);  // a key bias shifts all scores of a row alike
    const Value v = project("value", false);
    const Value mixed =
        b_.attention(q, k, v, {.dropout = settings_.attention_dropout, .documents = mask_}, prefix + "self");
    return models::affine(b_, mixed, prefix + "output.dense",
                          {.weight = {"heads", "head_dim", "embed"}, .bias = {"embed"}, .result = kStream});
  }

  void predict_tokens(Value x) {
    const std::string name = "cls.predictions.";
    // The table reads the stream under its own name, so the input of the layer before it gets another one, by a product
    // with ones on the diagonal, which is exact.
    const Value diagonal =
        models::ones_where(b_, "diagonal", {"embed", "embed_in"}, [](auto at) { return at[0] == at[1]; });
    x = b_.linear(x, diagonal, {"batch", "seq", "embed_in"}, name + "transform.input");
    x = models::affine(b_, x, name + "transform.dense",
                       {.weight = {"embed_in", "embed"}, .bias = {"embed"}, .result = kStream});
    x = b_.activation(x, settings_.activation, name + "transform.activation");
    x = models::normalize(b_, x, {"embed"}, name + "transform.LayerNorm", norm_);
    const Value bias = b_.parameter(name + "bias", {"vocab"}, Initialization::constant(0), false);
    const Value scores = b_.linear(x, words_, {"batch", "seq", "vocab"}, name + "decoder");
    const Value logits = b_.add(scores, bias, name + "logits");
    b_.output("logits", logits);
    b_.cross_entropy_loss(logits, b_.input("targets", {"batch", "seq"}), "loss");
  }

  void classify(Value x) {
    const Value first = models::ones_where(b_, "first_token", {"seq"}, [](auto at) { return at[0] == 0; });
    // A sum in which all other tokens have the weight 0 works with any sharding of the sequence.
    x = b_.linear(x, first, {"batch", "embed"}, "bert.pooler.first");
    x = models::affine(b_, x, "bert.pooler.dense",
                       {.weight = {"embed", "embed_out"}, .bias = {"embed_out"}, .result = {"batch", "embed_out"}});
    x = b_.dropout(b_.activation(x, "tanh", "bert.pooler.activation"), settings_.dropout, "bert.pooler.dropout");
    models::classify(b_, x, "classifier", "embed_out");
  }

  GraphBuilder& b_;
  const Settings& settings_;
  models::Norm norm_;
  Value words_;
  Value mask_;
};

/// BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018):
/// attention in both directions, norms after the branches, learned positions. One of two heads: the prediction of
/// masked tokens, or the classification of a sentence or a pair by the first token.
class Bert final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Bert(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"seq", settings_.context}, {"segments", settings_.segments}};
    if (settings_.vocab > 0) sizes["vocab"] = settings_.vocab;
    if (settings_.classes > 0) sizes["classes"] = settings_.classes;
    return sizes;
  }

  void build(GraphBuilder& b) const override {
    b.define_dim("pos", settings_.context);
    b.define_dim("embed", settings_.embed);
    b.define_dim(settings_.classes > 0 ? "embed_out" : "embed_in", settings_.embed);
    b.define_dim("heads", settings_.heads);
    b.define_dim("head_dim", settings_.embed / settings_.heads);
    b.define_dim("ffn", settings_.ffn);
    BertBuilder(b, settings_).build();
  }

  static Options shrink(const Options& options, const ShrinkRequest& request) {
    const Settings full = settings_from(options);
    models::SmallOptions small(options, request);
    small.set("layers", small.blocks(full.layers));
    small.set_equal_heads({"embed", "embed_in", "embed_out"});
    small.set("ffn", small.multiple({"ffn"}, 6));
    small.set("context", small.multiple({"seq", "pos"}, 8));
    small.set("vocab", small.multiple({"vocab"}, 16));
    small.set("segments", small.multiple({"segments"}, std::min<std::int64_t>(full.segments, 2)));
    small.set_classes(full.classes);
    return small.options();
  }

 private:
  Settings settings_;
};

using Factory = models::FactoryWithFormat<Bert, BertFormat>;

}  // namespace
}  // namespace bert

STRATA_PLUGIN(model, "bert", "0.1.0", "Apache-2.0",
              "BERT, by name of size or by fields: prediction of masked tokens, or classification.", bert::Factory);
