#include "common/huggingface.hpp"

#include <algorithm>
#include <utility>

#include "bert.hpp"
#include "common/tensor_list.hpp"
#include "strata/error.hpp"

namespace bert {
namespace {

using namespace strata;

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

}  // namespace

std::optional<Options> BertFormat::options(const HuggingFaceFields& config) const {
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

HuggingFaceFields BertFormat::config(const Options& options, const DimSizes& sizes) const {
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
                            {"vocab_size", OptionValue(models::vocabulary_rows(settings.vocab, sizes))},
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

HuggingFaceTensors BertFormat::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  const std::int64_t vocab = models::vocabulary_rows(settings.vocab, sizes);
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

}  // namespace bert
