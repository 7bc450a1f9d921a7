#include "common/huggingface.hpp"

#include <utility>

#include "common/tensor_list.hpp"
#include "strata/error.hpp"
#include "t5.hpp"

namespace t5 {
namespace {

using namespace strata;

/// The activation as `feed_forward_proj` names it. "gated-gelu" is the tanh form, as in T5 1.1.
struct Projection {
  const char* published;
  const char* activation;
  bool gated;
};
constexpr Projection kProjections[] = {{"relu", "relu", false},
                                       {"gated-gelu", "gelu_tanh", true},
                                       {"gated-gelu_new", "gelu_tanh", true},
                                       {"gelu", "gelu", false},
                                       {"gelu_new", "gelu_tanh", false},
                                       {"gated-relu", "relu", true},
                                       {"gated-silu", "silu", true},
                                       {"silu", "silu", false}};

const Projection& projection_of(const HuggingFaceFields& config) {
  const std::string found = config.word("feed_forward_proj", "relu");
  std::string names;
  for (const Projection& each : kProjections) {
    if (found == each.published) return each;
    names += (names.empty() ? "\"" : ", \"") + std::string(each.published) + "\"";
  }
  throw OptionError("feed_forward_proj", "found \"" + found + "\"; accepted: " + names);
}

const Projection& projection_of(const Settings& settings) {
  for (const Projection& each : kProjections) {
    if (settings.gated == each.gated && settings.activation == each.activation) return each;
  }
  throw OptionError("activation", "found \"" + settings.activation + "\" with gated = " +
                                      (settings.gated ? "true" : "false") + ", which no published T5 has");
}

class T5Tensors final : public models::TensorList {
 public:
  explicit T5Tensors(const Settings& settings) : settings_(settings) {}

  void add_stack(const std::string& stack, std::int64_t layers, bool decodes) {
    add(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight", {settings_.buckets, settings_.heads});
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string prefix = stack + ".block." + std::to_string(i) + ".layer.";
      int part = 0;
      add_attention(prefix + std::to_string(part++) + ".", "SelfAttention.");
      if (decodes) add_attention(prefix + std::to_string(part++) + ".", "EncDecAttention.");
      add_feed_forward(prefix + std::to_string(part) + ".");
    }
    add(stack + ".final_layer_norm.weight", {settings_.embed});
  }

 private:
  void add_attention(const std::string& layer, const std::string& name) {
    const std::int64_t inner = settings_.heads * settings_.head_dim;
    for (const char* which : {"q", "k", "v"}) add(layer + name + which + ".weight", {inner, settings_.embed}, true);
    add(layer + name + "o.weight", {settings_.embed, inner}, true);
    add(layer + "layer_norm.weight", {settings_.embed});
  }

  void add_feed_forward(const std::string& layer) {
    const std::string prefix = layer + "DenseReluDense.";
    if (settings_.gated) {
      for (const char* which : {"wi_0", "wi_1"}) add_matrix(prefix + which, settings_.ffn, settings_.embed);
    } else {
      add_matrix(prefix + "wi", settings_.ffn, settings_.embed);
    }
    add_matrix(prefix + "wo", settings_.embed, settings_.ffn);
    add(layer + "layer_norm.weight", {settings_.embed});
  }

  void add_matrix(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, true);
  }

  const Settings& settings_;
};

}  // namespace

std::optional<Options> T5Format::options(const HuggingFaceFields& config) const {
  if (config.word("model_type", "") != "t5") return std::nullopt;
  models::require_plain_weights(config);
  const auto size = [&](const char* field, std::int64_t otherwise) {
    return OptionValue(models::checked_size(config, field, otherwise));
  };
  const Projection& projection = projection_of(config);
  Options options;
  options.set("layers", size("num_layers", 6));
  options.set("decoder_layers", size("num_decoder_layers", models::checked_size(config, "num_layers", 6)));
  options.set("heads", size("num_heads", 8));
  options.set("head_dim", size("d_kv", 64));
  options.set("embed", size("d_model", 512));
  options.set("ffn", size("d_ff", 2048));
  options.set("vocab", size("vocab_size", 32128));
  options.set("buckets", size("relative_attention_num_buckets", 32));
  options.set("max_distance", size("relative_attention_max_distance", 128));
  options.set("dropout", OptionValue(config.number("dropout_rate", 0.1)));
  options.set("norm_epsilon", OptionValue(config.number("layer_norm_epsilon", 1e-6)));
  options.set("activation", OptionValue(std::string(projection.activation)));
  options.set("gated", OptionValue(projection.gated));
  const bool tied = config.boolean("tie_word_embeddings", true);
  options.set("tied", OptionValue(tied));
  // Newer files say it apart from the tie.
  const bool scaled = config.boolean("scale_decoder_outputs", tied);
  options.set("scaled", OptionValue(std::string(scaled ? "yes" : "no")));
  options.set("start_token", OptionValue(config.integer("decoder_start_token_id", config.integer("pad_token_id", 0))));
  options.set("end_token", OptionValue(config.integer("eos_token_id", 1)));
  return options;
}

HuggingFaceFields T5Format::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  return HuggingFaceFields({{"architectures", OptionValue(std::vector<std::string>{"T5ForConditionalGeneration"})},
                            {"model_type", OptionValue(std::string("t5"))},
                            {"is_encoder_decoder", OptionValue(true)},
                            {"num_layers", OptionValue(settings.layers)},
                            {"num_decoder_layers", OptionValue(settings.decoder_layers)},
                            {"num_heads", OptionValue(settings.heads)},
                            {"d_kv", OptionValue(settings.head_dim)},
                            {"d_model", OptionValue(settings.embed)},
                            {"d_ff", OptionValue(settings.ffn)},
                            {"vocab_size", OptionValue(models::size_of_dim("vocab", settings.vocab, sizes))},
                            {"relative_attention_num_buckets", OptionValue(settings.buckets)},
                            {"relative_attention_max_distance", OptionValue(settings.max_distance)},
                            {"dropout_rate", OptionValue(settings.dropout)},
                            {"layer_norm_epsilon", OptionValue(settings.norm_epsilon)},
                            {"feed_forward_proj", OptionValue(std::string(projection_of(settings).published))},
                            {"decoder_start_token_id", OptionValue(settings.start_token)},
                            {"pad_token_id", OptionValue(settings.start_token)},
                            {"eos_token_id", OptionValue(settings.end_token)},
                            {"scale_decoder_outputs", OptionValue(settings.scaled)},
                            {"tie_word_embeddings", OptionValue(settings.tied)}});
}

HuggingFaceTensors T5Format::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  const std::int64_t vocab = models::size_of_dim("vocab", settings.vocab, sizes);
  T5Tensors list(settings);
  list.add("shared.weight", {vocab, settings.embed});
  list.add_stack("encoder", settings.layers, false);
  list.add_stack("decoder", settings.decoder_layers, true);
  HuggingFaceTensors tensors;
  for (const char* copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    tensors.copies[copy] = "shared.weight";
  }
  if (settings.tied) {
    tensors.copies["lm_head.weight"] = "shared.weight";
  } else {
    list.add("lm_head.weight", {vocab, settings.embed});
  }
  // A bias that the first published T5 had and never used.
  tensors.ignored = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  tensors.tensors = list.take();
  return tensors;
}

}  // namespace t5
