#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/classification.hpp"
#include "common/huggingface.hpp"
#include "common/images.hpp"
#include "common/layers.hpp"
#include "common/options.hpp"
#include "common/tensor_list.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/huggingface.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace vit {
namespace {

using namespace strata;
using models::size_option;

/// Sizes and dropout rates of one ViT.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t ffn = 3072;
  /// Pixels of a side of a patch, which is a square.
  std::int64_t patch = 16;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  /// Classes; 0: as many as the data has.
  std::int64_t classes = 0;
  /// True if a class token stands before the patches and is classified. Otherwise the mean of all patches is.
  bool class_token = true;
  double dropout = 0;
  double attention_dropout = 0;
  double label_smoothing = 0;

  [[nodiscard]] std::int64_t rows() const { return height / patch; }
  [[nodiscard]] std::int64_t columns() const { return width / patch; }
  /// Tokens of an image.
  [[nodiscard]] std::int64_t tokens() const { return rows() * columns() + (class_token ? 1 : 0); }
};

/// The published sizes, for images of 224 x 224. All have ffn = 4 embed.
std::vector<models::NamedSize<Settings>> named_sizes() {
  return {{"vit-ti-16", {.layers = 12, .heads = 3, .embed = 192, .patch = 16}},
          {"vit-s-16", {.layers = 12, .heads = 6, .embed = 384, .patch = 16}},
          {"vit-b-16", {.layers = 12, .heads = 12, .embed = 768, .patch = 16}},
          {"vit-b-32", {.layers = 12, .heads = 12, .embed = 768, .patch = 32}},
          {"vit-l-16", {.layers = 24, .heads = 16, .embed = 1024, .patch = 16}}};
}

constexpr double kLargestSide = 65536;

OptionSchema option_schema() {
  return {models::named_size_option(
              named_sizes(),
              "A published size, which gives layers, heads, embed, ffn and patch; fields that are set override it."),
          size_option("layers", "Transformer blocks; 0: the size's, 12 for custom.", 4096),
          size_option("heads", "Attention heads; must divide embed; 0: the size's, 12 for custom.", 4096),
          size_option("embed", "Width of the residual stream; 0: the size's, 768 for custom.", 1048576),
          size_option("ffn", "Inner width of the feed-forward block; 0: 4 embed.", 4194304),
          size_option("patch", "Pixels of a side of a patch; must divide the image; 0: the size's, 16 for custom.",
                      kLargestSide),
          size_option("image", "Pixels of an image's height, and of its width without `width`; 0: 224.", kLargestSide),
          size_option("width", "Pixels of an image's width; 0: as many as its height.", kLargestSide),
          option::integer("channels", 3, 1, 65536, "Values of a pixel."),
          size_option("classes", "Classes; 0: as many as the data has.", 16777216),
          option::boolean(
              "class_token", true,
              "Put a learned token before the patches and classify it; false: classify the mean of the patches."),
          option::number("dropout", 0.0, 0, 0.99,
                         "Probability with which embeddings, branches and inner values are dropped."),
          option::number("attention_dropout", 0.0, 0, 0.99, "Probability with which attention weights are dropped."),
          models::label_smoothing_option()};
}

/// Settings of the size that the options name, with the options that override it. \throws OptionError if the
/// number of heads does not divide embed, or the patch does not divide the image.
Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
  const models::Overrides overrides(options);
  overrides.integer("layers", settings.layers);
  overrides.integer("heads", settings.heads);
  overrides.integer("embed", settings.embed);
  settings.ffn = 4 * settings.embed;
  overrides.integer("ffn", settings.ffn);
  overrides.integer("patch", settings.patch);
  overrides.integer("image", settings.height);
  settings.width = settings.height;
  overrides.integer("width", settings.width);
  settings.channels = options.integer("channels");
  settings.classes = options.integer("classes");
  settings.class_token = options.boolean("class_token");
  settings.dropout = options.number("dropout");
  settings.attention_dropout = options.number("attention_dropout");
  settings.label_smoothing = options.number("label_smoothing");
  models::require_equal_heads(settings.heads, settings.embed);
  if (settings.height % settings.patch != 0 || settings.width % settings.patch != 0) {
    throw OptionError("patch", "patches of " + std::to_string(settings.patch) + " do not divide an image of " +
                                   std::to_string(settings.height) + " x " + std::to_string(settings.width) +
                                   "; choose a divisor of both");
  }
  return settings;
}

const Dims kStream{"batch", "seq", "embed"};

/// Appends the parts of the model. Parameter names are torchvision's.
class VitBuilder {
 public:
  VitBuilder(GraphBuilder& builder, const Settings& settings) : b_(builder), settings_(settings) {}

  void build() {
    b_.begin_block(0);
    Value x = embeddings();
    for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
      b_.begin_block(static_cast<int>(layer) + 1);
      x = block(x, "encoder.layers.encoder_layer_" + std::to_string(layer) + ".");
    }
    b_.begin_block(static_cast<int>(settings_.layers) + 1);
    classify(norm(x, "encoder.ln"));
  }

 private:
  Value norm(Value x, const std::string& name) {
    return models::normalize(b_, x, {"embed"}, name, {.kind = models::Norm::Kind::layer, .epsilon = 1e-6});
  }

  /// One token for each patch, after the class token.
  Value embeddings() {
    const Value images = b_.input("images", {"batch", "channels", "height", "width"}, b_.float_type());
    const auto inputs = static_cast<double>(settings_.channels * settings_.patch * settings_.patch);
    const Value patches = models::convolve(b_, images, "conv_proj",
                                           {.weight = {"embed", "channels", "patch_rows", "patch_columns"},
                                            .result = {"batch", "embed", "rows", "columns"},
                                            .stride = settings_.patch,
                                            .bias = true,
                                            .deviation = std::sqrt(1 / inputs)});
    // Products with zeros and ones put patches and class token into the sequence. They are exact for any sharding of
    // it.
    const std::int64_t first = settings_.class_token ? 1 : 0;
    const Value places = models::ones_where(
        b_, "places", {"rows", "columns", "seq"},
        [columns = settings_.columns(), first](auto at) { return at[0] * columns + at[1] + first == at[2]; });
    Value x = b_.linear(patches, places, kStream, "patches");
    Value position = b_.parameter("encoder.pos_embedding", {"seq", "embed"},
                                  Initialization::normal(models::kInitialDeviation), true);
    if (settings_.class_token) {
      const Value token = b_.parameter("class_token", {"embed"}, Initialization::constant(0), true);
      position =
          b_.add(position, b_.linear(first_token(), token, {"seq", "embed"}, "class_token.place"), "class_token.sum");
    }
    x = b_.add(x, position, "encoder.embedding");
    return b_.dropout(x, settings_.dropout, "encoder.dropout");
  }

  /// 1 for the class token, and 0 for the patches.
  Value first_token() {
    return models::ones_where(b_, "first_token", {"seq"}, [](auto at) { return at[0] == 0; });
  }

  Value block(Value x, const std::string& prefix) {
    const Value mixed = models::attend(b_, norm(x, prefix + "ln_1"), prefix + "self_attention.",
                                       {.names = {"q", "k", "v", "out_proj", "attention"},
                                        .causal = false,
                                        .projection_bias = true,
                                        .output_bias = true,
                                        .dropout = settings_.attention_dropout});
    x = residual(x, mixed, prefix + "attention.residual");
    const Value outer = models::feed_forward(b_, norm(x, prefix + "ln_2"), prefix,
                                             {.names = {.up = "mlp.0", .activation = "mlp.1", .down = "mlp.3"},
                                              .activation = "gelu",
                                              .bias = true,
                                              .dropout = settings_.dropout});
    return residual(x, outer, prefix + "mlp.residual");
  }

  Value residual(Value x, Value branch, const std::string& name) {
    return b_.add(x, b_.dropout(branch, settings_.dropout, name + ".dropout"), name);
  }

  void classify(Value x) {
    const Dims image{"batch", "embed"};
    x = settings_.class_token ? b_.linear(x, first_token(), image, "class_token.pick") : b_.mean(x, image, "mean");
    models::classify(b_, x, "heads.head", "embed", settings_.label_smoothing);
  }

  GraphBuilder& b_;
  const Settings& settings_;
};

/// ViT (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020): the patches of an image are the tokens of a
/// transformer with norms before the branches. The model classifies a learned class token, or the mean of the patches
/// (Beyer et al., "Better plain ViT baselines for ImageNet-1k", 2022).
class Vit final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Vit(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"channels", settings_.channels},
                   {"height", settings_.height},
                   {"width", settings_.width},
                   {"seq", settings_.tokens()}};
    if (settings_.classes > 0) sizes["classes"] = settings_.classes;
    return sizes;
  }

  void build(GraphBuilder& b) const override {
    b.define_dim("patch_rows", settings_.patch);
    b.define_dim("patch_columns", settings_.patch);
    b.derive_dim("rows", settings_.rows(), "the image and the patch");
    b.derive_dim("columns", settings_.columns(), "the image and the patch");
    b.define_dim("embed", settings_.embed);
    b.define_dim("heads", settings_.heads);
    b.define_dim("head_dim", settings_.embed / settings_.heads);
    b.define_dim("ffn", settings_.ffn);
    VitBuilder(b, settings_).build();
  }

  static Options shrink(const Options& options, const ShrinkRequest& request) {
    const Settings full = settings_from(options);
    models::SmallOptions small(options, request);
    // One row of patches, as many as the sequence needs.
    const std::int64_t patch = small.multiple({"patch_rows", "patch_columns", "height", "width"}, 2);
    const std::int64_t tokens = small.multiple({"seq"}, 4);
    small.set("layers", small.blocks(full.layers));
    small.set_equal_heads({"embed"});
    small.set("ffn", small.multiple({"ffn"}, 6));
    small.set("patch", patch);
    small.set("image", patch);
    small.set("width", patch * (tokens - (full.class_token ? 1 : 0)));
    small.set("channels", small.multiple({"channels"}, std::min<std::int64_t>(full.channels, 2)));
    small.set_classes(full.classes);
    return small.options();
  }

 private:
  Settings settings_;
};

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

/// ViT with the names and the layout of torchvision's VisionTransformer, whose arguments config.json has as fields.
class VitFormat final : public HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<Options> options(const HuggingFaceFields& config) const override {
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

  [[nodiscard]] HuggingFaceFields config(const Options& options, const DimSizes& sizes) const override {
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
                              {"num_classes", OptionValue(models::size_of_dim("classes", settings.classes, sizes))},
                              {"dropout", OptionValue(settings.dropout)},
                              {"attention_dropout", OptionValue(settings.attention_dropout)}});
  }

  [[nodiscard]] HuggingFaceTensors tensors(const Options& options, const DimSizes& sizes) const override {
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
    list.add_linear("heads.head", models::size_of_dim("classes", settings.classes, sizes), settings.embed);
    return {.tensors = list.take()};
  }

  [[nodiscard]] std::vector<std::string> families() const override { return {"torchvision_vit"}; }
};

using Factory = models::FactoryWithFormat<Vit, VitFormat>;

}  // namespace
}  // namespace vit

STRATA_PLUGIN(model, "vit", "0.1.0", "Apache-2.0",
              "ViT, by name of size or by fields: classification of images by their patches.", vit::Factory);
