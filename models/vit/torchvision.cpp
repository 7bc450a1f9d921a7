#include <utility>

#include "common/huggingface.hpp"
#include "common/tensor_list.hpp"
#include "strata/error.hpp"
#include "vit.hpp"

namespace vit {
namespace {

using namespace strata;

constexpr const char* kModelType = "torchvision_vit";

class VitTensors final : public models::TensorList {
 public:
  explicit VitTensors(const Settings& settings) : settings_(settings) {}

  /// The projections to queries, keys and values, which are one tensor in the files.
  void add_projections(const std::string& attention) {
    const std::int64_t embed = settings_.embed;
    std::int64_t begin = 0;
    for (const char* part : {"q", "k", "v"}) {
      const auto add_part = [&](const std::string& tensor, const std::string& parameter, Shape shape, bool transposed) {
        list_.push_back({.name = attention + tensor,
                         .parameter = attention + part + parameter,
                         .shape = std::move(shape),
                         .transposed = transposed,
                         .slice_begin = begin,
                         .slice_size = embed});
      };
      add_part("in_proj_weight", ".weight", {3 * embed, embed}, true);
      add_part("in_proj_bias", ".bias", {3 * embed}, false);
      begin += embed;
    }
  }

  void add_layer(const std::string& layer) {
    add_norm(layer + "ln_1", settings_.embed);
    add_projections(layer + "self_attention.");
    add_linear(layer + "self_attention.out_proj", settings_.embed, settings_.embed);
    add_norm(layer + "ln_2", settings_.embed);
    add_linear(layer + "mlp.0", settings_.ffn, settings_.embed);
    add_linear(layer + "mlp.3", settings_.embed, settings_.ffn);
  }

 private:
  const Settings& settings_;
};

}  // namespace

std::optional<Options> VitFormat::options(const HuggingFaceFields& config) const {
  if (config.word("model_type", "") != kModelType) return std::nullopt;
  const auto size = [&](const char* field) { return OptionValue(models::checked_size(config, field)); };
  Options options;
  options.set("layers", size("num_layers"));
  options.set("heads", size("num_heads"));
  options.set("embed", size("hidden_dim"));
  options.set("ffn", size("mlp_dim"));
  options.set("patch", size("patch_size"));
  options.set("image", size("image_size"));
  options.set("classes", OptionValue(models::checked_size(config, "num_classes", 1000)));
  options.set("dropout", OptionValue(config.number("dropout", 0.0)));
  options.set("attention_dropout", OptionValue(config.number("attention_dropout", 0.0)));
  return options;
}

HuggingFaceFields VitFormat::config(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  const auto refuse = [](const char* option, const std::string& found, const std::string& accepted) {
    throw OptionError(option, "found " + found + "; accepted by torchvision: " + accepted);
  };
  if (!settings.class_token) refuse("class_token", "false", "true");
  if (settings.width != settings.height) refuse("width", std::to_string(settings.width), "the image's height");
  if (settings.channels != 3) refuse("channels", std::to_string(settings.channels), "3");
  return HuggingFaceFields({{"architectures", OptionValue(std::vector<std::string>{"VisionTransformer"})},
                            {"model_type", OptionValue(std::string(kModelType))},
                            {"image_size", OptionValue(settings.height)},
                            {"patch_size", OptionValue(settings.patch)},
                            {"num_layers", OptionValue(settings.layers)},
                            {"num_heads", OptionValue(settings.heads)},
                            {"hidden_dim", OptionValue(settings.embed)},
                            {"mlp_dim", OptionValue(settings.ffn)},
                            {"num_classes", OptionValue(models::class_count(settings.classes, sizes))},
                            {"dropout", OptionValue(settings.dropout)},
                            {"attention_dropout", OptionValue(settings.attention_dropout)}});
}

HuggingFaceTensors VitFormat::tensors(const Options& options, const DimSizes& sizes) const {
  const Settings settings = settings_from(options);
  VitTensors list(settings);
  if (settings.class_token) list.add("class_token", {1, 1, settings.embed});
  list.add("conv_proj.weight", {settings.embed, settings.channels, settings.patch, settings.patch});
  list.add("conv_proj.bias", {settings.embed});
  list.add("encoder.pos_embedding", {1, settings.tokens(), settings.embed});
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    list.add_layer("encoder.layers.encoder_layer_" + std::to_string(layer) + ".");
  }
  list.add_norm("encoder.ln", settings.embed);
  list.add_linear("heads.head", models::class_count(settings.classes, sizes), settings.embed);
  return {.tensors = list.take()};
}

}  // namespace vit
