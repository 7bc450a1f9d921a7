#include "common/huggingface.hpp"

#include <utility>

#include "gpt2.hpp"
#include "strata/error.hpp"

namespace gpt2 {
namespace {

using namespace strata;

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

}  // namespace

std::vector<std::string> Gpt2Format::families() const { return {"gpt2"}; }

std::optional<Options> Gpt2Format::options(const HuggingFaceFields& config) const {
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

HuggingFaceFields Gpt2Format::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  if (settings.window > 0) {
    throw OptionError(
        "window", "found " + std::to_string(settings.window) + "; accepted: 0, since a published GPT-2 has no window");
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
                            {"vocab_size", OptionValue(models::vocabulary_rows(settings.vocab, sizes))},
                            {"layer_norm_epsilon", OptionValue(1e-5)},
                            {"resid_pdrop", OptionValue(settings.dropout)},
                            {"embd_pdrop", OptionValue(settings.dropout)},
                            {"attn_pdrop", OptionValue(settings.attention_dropout)},
                            {"tie_word_embeddings", OptionValue(true)}});
}

HuggingFaceTensors Gpt2Format::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  TensorList list(settings.embed);
  list.add("wte.weight", {models::vocabulary_rows(settings.vocab, sizes), settings.embed});
  list.add("wpe.weight", {settings.context, settings.embed});
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) list.add_layer("h." + std::to_string(layer) + ".");
  list.add_with_bias("ln_f", {settings.embed});
  return {.tensors = list.take(),
          .copies = {{"lm_head.weight", "transformer.wte.weight"}},
          .ignored = {"*.attn.bias", "*.attn.masked_bias"},
          .optional_prefix = kPrefix};
}

}  // namespace gpt2
