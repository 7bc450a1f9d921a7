#include "model/huggingface.hpp"

#include "model/settings.hpp"

namespace rotary {
namespace {

using namespace strata;

constexpr const char* kModelType = "rotary_decoder";

/// Rows of the vocabulary. `sizes`: those that the data fixed.
std::int64_t vocab_of(const Settings& settings, const DimSizes& sizes) {
  return settings.vocab > 0 ? settings.vocab : sizes.at("vocab");
}

}  // namespace

std::optional<Options> DecoderFormat::options(const HuggingFaceFields& config) const {
  if (config.word("model_type", "") != kModelType) return std::nullopt;
  Options options;
  options.set("layers", OptionValue(config.integer("num_hidden_layers")));
  options.set("heads", OptionValue(config.integer("num_attention_heads")));
  options.set("embed", OptionValue(config.integer("hidden_size")));
  options.set("context", OptionValue(config.integer("max_position_embeddings")));
  options.set("vocab", OptionValue(config.integer("vocab_size")));
  options.set("base", OptionValue(config.number("rope_theta")));
  return options;
}

HuggingFaceFields DecoderFormat::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  return HuggingFaceFields({{"model_type", OptionValue(std::string(kModelType))},
                            {"num_hidden_layers", OptionValue(settings.layers)},
                            {"num_attention_heads", OptionValue(settings.heads)},
                            {"hidden_size", OptionValue(settings.embed)},
                            {"max_position_embeddings", OptionValue(settings.context)},
                            {"vocab_size", OptionValue(vocab_of(settings, sizes))},
                            {"rope_theta", OptionValue(settings.base)}});
}

HuggingFaceTensors DecoderFormat::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  const std::int64_t embed = settings.embed;
  HuggingFaceTensors published;
  const auto add = [&](const std::string& name, const Shape& shape, bool transposed) {
    published.tensors.push_back({.name = name, .parameter = name, .shape = shape, .transposed = transposed});
  };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", {embed}, false);
    add(name + ".bias", {embed}, false);
  };
  add("embedding.weight", {vocab_of(settings, sizes), embed}, false);
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    add_norm(layer + "attention_norm");
    add_norm(layer + "ffn_norm");
    for (const char* name : {"wq", "wk", "wv", "wo"}) add(layer + name + ".weight", {embed, embed}, true);
    add(layer + "w1.weight", {4 * embed, embed}, true);
    add(layer + "w2.weight", {embed, 4 * embed}, true);
  }
  add_norm("norm");
  return published;
}

}  // namespace rotary
