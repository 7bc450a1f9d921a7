#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/classification.hpp"
#include "common/huggingface.hpp"
#include "common/layers.hpp"
#include "common/options.hpp"
#include "common/tensor_list.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/huggingface.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace bert {
namespace {

using namespace strata;
using models::size_option;

/// Sizes, dropout rates and the task of one BERT.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t ffn = 3072;
  /// Positions that the table of positions has.
  std::int64_t context = 512;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  /// Kinds of tokens: sentences of a pair.
  std::int64_t segments = 2;
  /// Classes of a classification; 0: the model predicts masked tokens.
  std::int64_t classes = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double norm_epsilon = 1e-12;
  std::string activation = "gelu";
};

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

/// Settings of the size that the options name, with the options that override it. \throws OptionError if the
/// number of heads does not divide embed.
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
    const Value mixed = models::attend(b_, x, prefix + "attention.",
                                       {.names = {"self.query", "self.key", "self.value", "output.dense", "self"},
                                        .causal = false,
                                        .projection_bias = true,
                                        .output_bias = true,
                                        .documents = mask_,
                                        .dropout = settings_.attention_dropout});
    x = branch(x, mixed, prefix + "attention.output.");
    const Value outer = models::feed_forward(
        b_, x, prefix,
        {.names = {.up = "intermediate.dense", .activation = "intermediate.activation", .down = "output.dense"},
         .activation = settings_.activation,
         .bias = true});
    return branch(x, outer, prefix + "output.");
  }

  /// The norm comes after the branch.
  Value branch(Value x, Value y, const std::string& prefix) {
    const Value sum = b_.add(x, b_.dropout(y, settings_.dropout, prefix + "dropout"), prefix + "residual");
    return models::normalize(b_, sum, {"embed"}, prefix + "LayerNorm", norm_);
  }

  void predict_tokens(Value x) {
    const std::string name = "cls.predictions.";
    // The table reads the stream under its own name, so the input of the layer before it gets another one, by a product
    // with ones on the diagonal, which is exact.
    const Value diagonal =
        models::ones_where(b_, "diagonal", {"embed", "embed_in"}, [](auto at) { return at[0] == at[1]; });
    x = b_.linear(x, diagonal, {"batch", "seq", "embed_in"}, name + "transform.input");
    x = models::affine(b_, x, name + "transform.dense",
                       {.weight = {"embed_in", "embed"}, .bias = {"embed"}, .result = {"batch", "seq", "embed"}});
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

/// Names of activations in config.json and here.
constexpr std::pair<const char*, const char*> kActivations[] = {
    {"gelu", "gelu"}, {"gelu_new", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"}, {"relu", "relu"}};

std::string activation_of(const HuggingFaceFields& config) {
  const std::string found = config.word("hidden_act", "gelu");
  for (const auto& [published, own] : kActivations) {
    if (found == published) return own;
  }
  throw OptionError("hidden_act",
                    "found \"" + found + "\"; accepted: \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\"");
}

/// The head that config.json names. A file without one has none of the two.
bool classifies(const HuggingFaceFields& config) {
  const std::vector<std::string> heads = config.words("architectures");
  const auto has = [&](const char* name) { return contains(heads, name); };
  if (has("BertForSequenceClassification")) return true;
  if (has("BertForMaskedLM")) return false;
  throw OptionError("architectures", "found " + (heads.empty() ? "none" : heads.front()) +
                                         "; accepted: BertForMaskedLM, BertForSequenceClassification");
}

/// transformers writes the classes as names by index, and leaves out the default of two.
std::int64_t classes_of(const HuggingFaceFields& config) {
  std::int64_t classes = 0;
  for (const auto& [path, value] : config.values()) classes += path.starts_with("id2label.") ? 1 : 0;
  return classes > 0 ? classes : config.integer("num_labels", 2);
}

class BertTensors final : public models::TensorList {
 public:
  explicit BertTensors(const Settings& settings) : settings_(settings) {}

  void add_layer(const std::string& layer) {
    const std::int64_t embed = settings_.embed;
    for (const char* part : {"query", "key", "value"}) add_linear(layer + "attention.self." + part, embed, embed);
    add_linear(layer + "attention.output.dense", embed, embed);
    add_norm(layer + "attention.output.LayerNorm", settings_.embed);
    add_linear(layer + "intermediate.dense", settings_.ffn, embed);
    add_linear(layer + "output.dense", embed, settings_.ffn);
    add_norm(layer + "output.LayerNorm", settings_.embed);
  }

 private:
  const Settings& settings_;
};

/// BERT as transformers' BertForMaskedLM and BertForSequenceClassification publish it.
class BertFormat final : public HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<Options> options(const HuggingFaceFields& config) const override {
    if (config.word("model_type", "") != "bert") return std::nullopt;
    config.require("position_embedding_type", OptionValue(std::string("absolute")));
    config.require("is_decoder", OptionValue(false));
    config.require("add_cross_attention", OptionValue(false));
    config.require("tie_word_embeddings", OptionValue(true));
    models::require_plain_weights(config);
    const auto size = [&](const char* field, std::int64_t otherwise) {
      return OptionValue(models::checked_size(config, field, otherwise));
    };
    Options options;
    options.set("layers", size("num_hidden_layers", 12));
    options.set("heads", size("num_attention_heads", 12));
    options.set("embed", size("hidden_size", 768));
    options.set("ffn", size("intermediate_size", 3072));
    options.set("context", size("max_position_embeddings", 512));
    options.set("vocab", size("vocab_size", 30522));
    options.set("segments", size("type_vocab_size", 2));
    options.set("classes", OptionValue(classifies(config) ? classes_of(config) : std::int64_t{0}));
    options.set("activation", OptionValue(activation_of(config)));
    options.set("dropout", OptionValue(config.number("hidden_dropout_prob", 0.1)));
    options.set("attention_dropout", OptionValue(config.number("attention_probs_dropout_prob", 0.1)));
    options.set("norm_epsilon", OptionValue(config.number("layer_norm_eps", 1e-12)));
    return options;
  }

  [[nodiscard]] HuggingFaceFields config(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    const auto* activation = std::find_if(std::begin(kActivations), std::end(kActivations),
                                          [&](const auto& each) { return settings.activation == each.second; });
    const std::string head = settings.classes > 0 ? "BertForSequenceClassification" : "BertForMaskedLM";
    HuggingFaceFields fields({{"architectures", OptionValue(std::vector<std::string>{head})},
                              {"model_type", OptionValue(std::string("bert"))},
                              {"hidden_act", OptionValue(std::string(activation->first))},
                              {"num_hidden_layers", OptionValue(settings.layers)},
                              {"num_attention_heads", OptionValue(settings.heads)},
                              {"hidden_size", OptionValue(settings.embed)},
                              {"intermediate_size", OptionValue(settings.ffn)},
                              {"max_position_embeddings", OptionValue(settings.context)},
                              {"vocab_size", OptionValue(models::size_of_dim("vocab", settings.vocab, sizes))},
                              {"type_vocab_size", OptionValue(settings.segments)},
                              {"hidden_dropout_prob", OptionValue(settings.dropout)},
                              {"attention_probs_dropout_prob", OptionValue(settings.attention_dropout)},
                              {"layer_norm_eps", OptionValue(settings.norm_epsilon)}});
    for (std::int64_t i = 0; i < settings.classes; ++i) {
      const std::string label = "LABEL_" + std::to_string(i);
      fields.set("id2label." + std::to_string(i), OptionValue(label));
      fields.set("label2id." + label, OptionValue(i));
    }
    return fields;
  }

  [[nodiscard]] HuggingFaceTensors tensors(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    const std::int64_t vocab = models::size_of_dim("vocab", settings.vocab, sizes);
    const std::string embeddings = "bert.embeddings.";
    BertTensors list(settings);
    list.add(embeddings + "word_embeddings.weight", {vocab, settings.embed});
    list.add(embeddings + "position_embeddings.weight", {settings.context, settings.embed});
    list.add(embeddings + "token_type_embeddings.weight", {settings.segments, settings.embed});
    list.add_norm(embeddings + "LayerNorm", settings.embed);
    for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
      list.add_layer("bert.encoder.layer." + std::to_string(layer) + ".");
    }
    HuggingFaceTensors tensors{.ignored = {"*.position_ids"}};
    if (settings.classes > 0) {
      list.add_linear("bert.pooler.dense", settings.embed, settings.embed);
      list.add_linear("classifier", settings.classes, settings.embed);
    } else {
      list.add_linear("cls.predictions.transform.dense", settings.embed, settings.embed);
      list.add_norm("cls.predictions.transform.LayerNorm", settings.embed);
      list.add("cls.predictions.bias", {vocab});
      tensors.copies = {{"cls.predictions.decoder.weight", embeddings + "word_embeddings.weight"},
                        {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
      // Those of the prediction of the next sentence, which published files may have.
      tensors.ignored.insert(tensors.ignored.end(), {"bert.pooler.*", "cls.seq_relationship.*"});
    }
    tensors.tensors = list.take();
    return tensors;
  }

  [[nodiscard]] std::vector<std::string> families() const override { return {"bert"}; }
};

using Factory = models::FactoryWithFormat<Bert, BertFormat>;

}  // namespace
}  // namespace bert

STRATA_PLUGIN(model, "bert", "0.1.0", "Apache-2.0",
              "BERT, by name of size or by fields: prediction of masked tokens, or classification.", bert::Factory);
