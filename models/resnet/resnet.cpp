#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/classification.hpp"
#include "common/huggingface.hpp"
#include "common/images.hpp"
#include "common/options.hpp"
#include "common/tensor_list.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/huggingface.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace resnet {
namespace {

using namespace strata;
using models::size_option;

/// Sizes of one ResNet. Stages count from 0.
struct Settings {
  /// True for blocks of 1 x 1, 3 x 3 and 1 x 1 pixels, false for two of 3 x 3.
  bool is_bottleneck = false;
  /// Residual blocks of each stage.
  std::vector<std::int64_t> layers = {2, 2, 2, 2};
  /// Inner channels of the first stage. Each further stage has twice as many.
  std::int64_t planes = 64;
  /// True for a first convolution of 3 x 3 pixels, without pooling. Otherwise it has 7 x 7, and the stem divides the
  /// image by 4.
  bool is_small_stem = false;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  /// Classes; 0: as many as the data has.
  std::int64_t classes = 0;
  double label_smoothing = 0;

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
  [[nodiscard]] std::int64_t inner(std::size_t stage) const { return planes << stage; }
  /// Channels between the blocks of a stage.
  [[nodiscard]] std::int64_t outer(std::size_t stage) const { return inner(stage) * (is_bottleneck ? 4 : 1); }
  /// Pixels of the stem's window.
  [[nodiscard]] std::int64_t stem_window() const { return is_small_stem ? 3 : 7; }
  /// True if the first block of a stage changes the size of its input, so that its shortcut is a convolution.
  [[nodiscard]] bool has_downsample(std::size_t stage) const { return stage > 0 || is_bottleneck; }
};

std::vector<models::NamedSize<Settings>> named_sizes() {
  return {{"resnet-18", {.layers = {2, 2, 2, 2}}},
          {"resnet-34", {.layers = {3, 4, 6, 3}}},
          {"resnet-50", {.is_bottleneck = true, .layers = {3, 4, 6, 3}}}};
}

constexpr double kLargestSide = 65536;
constexpr double kMostBlocks = 1024;
constexpr std::size_t kMostStages = 8;

OptionSchema option_schema() {
  return {models::named_size_option(named_sizes(),
                                    "A published size, which gives block and layers; fields that are set override it."),
          option::word("block", "auto",
                       "Residual blocks: basic, two convolutions of 3 x 3 pixels, or bottleneck, one between two of "
                       "1 x 1; auto: the size's, basic for custom.",
                       {"auto", "basic", "bottleneck"}),
          {.name = "layers",
           .type = OptionType::numbers,
           .default_value = OptionValue(std::vector<double>{}),
           .documentation = "Residual blocks of each stage; none: the size's, [2, 2, 2, 2] for custom.",
           .minimum = 1,
           .maximum = kMostBlocks},
          size_option("planes", "Inner channels of the first stage, doubled in each further one; 0: 64.", 65536),
          option::word("stem", "imagenet",
                       "imagenet: a convolution of 7 x 7 pixels and a pooling, which divide the image by 4; cifar: a "
                       "convolution of 3 x 3 pixels, for small images.",
                       {"imagenet", "cifar"}),
          size_option("image", "Pixels of an image's height, and of its width without `width`; 0: 224.", kLargestSide),
          size_option("width", "Pixels of an image's width; 0: as many as its height.", kLargestSide),
          option::integer("channels", 3, 1, 65536, "Values of a pixel."),
          size_option("classes", "Classes; 0: as many as the data has.", 16777216),
          models::label_smoothing_option()};
}

std::vector<std::int64_t> whole_numbers(const std::vector<double>& numbers) {
  std::vector<std::int64_t> whole;
  for (const double each : numbers) {
    if (each != std::floor(each))
      throw OptionError("layers", "found " + to_string(OptionValue(each)) + "; accepted: whole numbers");
    whole.push_back(static_cast<std::int64_t>(each));
  }
  return whole;
}

/// Settings of the size that the options name, with the options that override it. \throws OptionError if
/// `layers` has a number that is not whole, or too many.
Settings settings_from(const Options& options) {
  Settings settings = models::settings_of_size(named_sizes(), options);
  if (options.word("block") != "auto") settings.is_bottleneck = options.word("block") == "bottleneck";
  const std::vector<std::int64_t> layers = whole_numbers(options.numbers("layers"));
  if (layers.size() > kMostStages) {
    throw OptionError("layers", "found " + std::to_string(layers.size()) + " stages; accepted: at most " +
                                    std::to_string(kMostStages));
  }
  if (!layers.empty()) settings.layers = layers;
  const models::Overrides overrides(options);
  overrides.integer("planes", settings.planes);
  overrides.integer("image", settings.height);
  settings.width = settings.height;
  overrides.integer("width", settings.width);
  settings.is_small_stem = options.word("stem") == "cifar";
  settings.channels = options.integer("channels");
  settings.classes = options.integer("classes");
  settings.label_smoothing = options.number("label_smoothing");
  return settings;
}

/// Dims of images.
struct Images {
  Dim channels;
  Dim height;
  Dim width;
};

/// Appends the parts of the model. Parameter names are torchvision's.
///
/// Stage n has the dims outer<n>, of channels between blocks, and inner<n>, middle<n> within, height<n> and width<n>.
class ResnetBuilder {
 public:
  ResnetBuilder(GraphBuilder& builder, const Settings& settings) : b_(builder), settings_(settings) {}

  void build() {
    b_.begin_block(0);
    Images images{"channels", "height", "width"};
    Value x = stem(images);
    int block = 1;
    for (std::size_t stage = 0; stage < settings_.stages(); ++stage) {
      for (std::int64_t i = 0; i < settings_.layers[stage]; ++i) {
        b_.begin_block(block++);
        x = residual(x, "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".", stage, i == 0, images);
      }
    }
    b_.begin_block(block);
    x = b_.mean(x, {"batch", images.channels}, "avgpool");
    models::classify(b_, x, "fc", images.channels, settings_.label_smoothing);
  }

 private:
  static Dim of_stage(const std::string& dim, std::size_t stage) { return dim + std::to_string(stage + 1); }

  /// The dims of pixels after a window of `window` and a stride.
  Images reduced(const Images& images, const Images& names, std::int64_t window, std::int64_t stride) {
    const auto reduce = [&](const Dim& from, const Dim& to) {
      const std::int64_t size = (*b_.find_size(from) + window / 2 * 2 - window) / stride + 1;
      b_.derive_dim(to, size, "the image and the strides");
    };
    reduce(images.height, names.height);
    reduce(images.width, names.width);
    return names;
  }

  Value stem(Images& images) {
    const Value x = b_.input("images", {"batch", images.channels, images.height, images.width}, b_.float_type());
    const Dim channels = settings_.has_downsample(0) ? "stem" : of_stage("outer", 0);
    b_.define_dim(channels, settings_.planes);
    const Images of_stage_0{channels, of_stage("height", 0), of_stage("width", 0)};
    const std::int64_t window = settings_.stem_window();
    const std::int64_t stride = settings_.is_small_stem ? 1 : 2;
    const Images convolved = reduced(
        images, settings_.is_small_stem ? of_stage_0 : Images{channels, "stem_height", "stem_width"}, window, stride);
    const Value y = normalized(x, "conv1", "bn1", {images.channels, convolved, window, stride});
    images = convolved;
    if (settings_.is_small_stem) return relu(y, "relu");
    images = reduced(convolved, of_stage_0, 3, 2);
    // torchvision pools after the relu, with the same results: relu keeps the order of pixels.
    const models::Pooling pooling{.result = dims(images), .window = 3, .stride = 2, .padding = 1};
    return relu(models::max_pool(b_, y, "maxpool", pooling), "relu");
  }

  /// A convolution without a bias. Zeros around the images keep their size if the stride is 1.
  struct Convolution {
    Dim in;
    Images result;
    std::int64_t window;
    std::int64_t stride;
  };

  static Dims dims(const Images& images) { return {"batch", images.channels, images.height, images.width}; }

  Value normalized(Value x, const std::string& name, const std::string& norm, const Convolution& shape) {
    const std::string window = std::to_string(shape.window);
    b_.define_dim("rows" + window, shape.window);
    b_.define_dim("columns" + window, shape.window);
    const auto outputs = static_cast<double>(*b_.find_size(shape.result.channels) * shape.window * shape.window);
    const Value y = models::convolve(b_, x, name,
                                     {.weight = {shape.result.channels, shape.in, "rows" + window, "columns" + window},
                                      .result = dims(shape.result),
                                      .stride = shape.stride,
                                      .padding = shape.window / 2,
                                      .deviation = std::sqrt(2 / outputs)});  // He et al., 2015
    return models::batch_norm(b_, y, shape.result.channels, norm);
  }

  Value relu(Value x, const std::string& name) { return b_.activation(x, "relu", name); }

  Value residual(Value x, const std::string& name, std::size_t stage, bool is_first, Images& images) {
    const std::int64_t stride = is_first && stage > 0 ? 2 : 1;
    const Images in = images;
    if (stride > 1) images = reduced(in, {"", of_stage("height", stage), of_stage("width", stage)}, 3, stride);
    const auto with = [&](const char* channels, std::int64_t size, const Images& pixels) {
      b_.define_dim(of_stage(channels, stage), size);
      return Images{of_stage(channels, stage), pixels.height, pixels.width};
    };
    images = with("outer", settings_.outer(stage), images);
    const Images& out = images;
    Value y;
    if (settings_.is_bottleneck) {
      const Images inner = with("inner", settings_.inner(stage), in);
      const Images middle = with("middle", settings_.inner(stage), out);
      y = relu(normalized(x, name + "conv1", name + "bn1", {in.channels, inner, 1, 1}), name + "relu1");
      y = relu(normalized(y, name + "conv2", name + "bn2", {inner.channels, middle, 3, stride}), name + "relu2");
      y = normalized(y, name + "conv3", name + "bn3", {middle.channels, out, 1, 1});
    } else {
      const Images inner = with("inner", settings_.inner(stage), out);
      y = relu(normalized(x, name + "conv1", name + "bn1", {in.channels, inner, 3, stride}), name + "relu1");
      y = normalized(y, name + "conv2", name + "bn2", {inner.channels, out, 3, 1});
    }
    if (is_first && settings_.has_downsample(stage)) {
      x = normalized(x, name + "downsample.0", name + "downsample.1", {in.channels, out, 1, stride});
    }
    return relu(b_.add(y, x, name + "add"), name + "relu");
  }

  GraphBuilder& b_;
  const Settings& settings_;
};

/// ResNet (He et al., "Deep Residual Learning for Image Recognition", 2015), with the stride of a bottleneck in its
/// convolution of 3 x 3 pixels, as torchvision has it.
class Resnet final : public Model {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Resnet(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] DimSizes sizes() const override {
    DimSizes sizes{{"channels", settings_.channels}, {"height", settings_.height}, {"width", settings_.width}};
    if (settings_.classes > 0) sizes["classes"] = settings_.classes;
    return sizes;
  }

  void build(GraphBuilder& b) const override { ResnetBuilder(b, settings_).build(); }

  static Options shrink(const Options& options, const ShrinkRequest& request) {
    const Settings full = settings_from(options);
    models::SmallOptions small(options, request);
    std::vector<double> layers(full.layers.begin(), full.layers.end());
    if (!request.keeps_blocks) layers.assign(std::min<std::size_t>(full.stages(), 2), 1);
    std::int64_t planes = 2;
    for (std::size_t stage = 1; stage <= layers.size(); ++stage) {
      const std::string number = std::to_string(stage);
      planes = small.multiple({"outer" + number, "inner" + number, "middle" + number}, planes);
    }
    const std::int64_t side = full.is_small_stem ? 6 : 18;
    small.set("block", std::string(full.is_bottleneck ? "bottleneck" : "basic"));
    small.set("layers", layers);
    small.set("planes", planes);
    small.set("image", small.multiple({"height"}, side));
    small.set("width", small.multiple({"width"}, side));
    small.set("channels", small.multiple({"channels"}, std::min<std::int64_t>(full.channels, 2)));
    small.set_classes(full.classes);
    return small.options();
  }

 private:
  Settings settings_;
};

constexpr const char* kModelType = "torchvision_resnet";
constexpr const char* kBasic = "BasicBlock";
constexpr const char* kBottleneck = "Bottleneck";
constexpr std::size_t kStages = 4;
constexpr std::int64_t kPlanes = 64;

class ResnetTensors final : public models::TensorList {
 public:
  explicit ResnetTensors(const Settings& settings) : settings_(settings) {}

  /// A convolution and the batch norm of its result.
  void add_convolution(const std::string& name, const std::string& norm, std::int64_t out, std::int64_t in,
                       std::int64_t window) {
    add(name + ".weight", {out, in, window, window});
    add_norm(norm, out);
    add(norm + ".running_mean", {out});
    add(norm + ".running_var", {out});
  }

  void add_block(const std::string& block, std::size_t stage, std::int64_t in, bool has_downsample) {
    const std::int64_t inner = settings_.inner(stage);
    const std::int64_t outer = settings_.outer(stage);
    if (settings_.is_bottleneck) {
      add_convolution(block + "conv1", block + "bn1", inner, in, 1);
      add_convolution(block + "conv2", block + "bn2", inner, inner, 3);
      add_convolution(block + "conv3", block + "bn3", outer, inner, 1);
    } else {
      add_convolution(block + "conv1", block + "bn1", inner, in, 3);
      add_convolution(block + "conv2", block + "bn2", outer, inner, 3);
    }
    if (has_downsample) add_convolution(block + "downsample.0", block + "downsample.1", outer, in, 1);
  }

 private:
  const Settings& settings_;
};

/// The field `layers`: residual blocks of four stages.
std::vector<double> layers_of(const HuggingFaceFields& config) {
  const auto* layers = std::get_if<std::vector<double>>(config.find("layers"));
  if (layers != nullptr && layers->size() == kStages) return *layers;
  throw OptionError("layers",
                    "found no list of four numbers; accepted: the blocks of four stages, such as [2, 2, 2, 2]");
}

/// ResNet with the names and the layout of torchvision's ResNet, whose arguments config.json has as fields.
class ResnetFormat final : public HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<Options> options(const HuggingFaceFields& config) const override {
    if (config.word("model_type", "") != kModelType) return std::nullopt;
    config.require("groups", OptionValue(std::int64_t{1}));
    config.require("width_per_group", OptionValue(kPlanes));
    const std::string block = config.word("block");
    if (block != kBasic && block != kBottleneck) {
      throw OptionError("block", "found \"" + block + "\"; accepted: \"" + kBasic + "\", \"" + kBottleneck + "\"");
    }
    Options options;
    options.set("block", OptionValue(std::string(block == kBasic ? "basic" : "bottleneck")));
    options.set("layers", OptionValue(layers_of(config)));
    options.set("image", OptionValue(models::checked_size(config, "image_size", 224)));
    options.set("classes", OptionValue(models::checked_size(config, "num_classes", 1000)));
    return options;
  }

  [[nodiscard]] HuggingFaceFields config(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    const auto require = [](const char* option, const auto& found, const auto& accepted, const std::string& words) {
      if (found != accepted) throw OptionError(option, "accepted by torchvision: " + words);
    };
    require("stem", settings.is_small_stem, false, "\"imagenet\"");
    require("layers", settings.stages(), kStages, "four stages");
    require("planes", settings.planes, kPlanes, "64");
    require("width", settings.width, settings.height, "the image's height");
    require("channels", settings.channels, std::int64_t{3}, "3");
    const std::vector<double> layers(settings.layers.begin(), settings.layers.end());
    return HuggingFaceFields({{"architectures", OptionValue(std::vector<std::string>{"ResNet"})},
                              {"model_type", OptionValue(std::string(kModelType))},
                              {"block", OptionValue(std::string(settings.is_bottleneck ? kBottleneck : kBasic))},
                              {"layers", OptionValue(layers)},
                              {"image_size", OptionValue(settings.height)},
                              {"num_classes", OptionValue(models::size_of_dim("classes", settings.classes, sizes))}});
  }

  [[nodiscard]] HuggingFaceTensors tensors(const Options& options, const DimSizes& sizes) const override {
    const Settings settings = settings_from(options);
    ResnetTensors list(settings);
    list.add_convolution("conv1", "bn1", settings.planes, settings.channels, settings.stem_window());
    std::int64_t in = settings.planes;
    for (std::size_t stage = 0; stage < settings.stages(); ++stage) {
      for (std::int64_t i = 0; i < settings.layers[stage]; ++i) {
        const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
        list.add_block(block, stage, in, i == 0 && settings.has_downsample(stage));
        in = settings.outer(stage);
      }
    }
    list.add_linear("fc", models::size_of_dim("classes", settings.classes, sizes), in);
    return {.tensors = list.take(), .ignored = {"*.num_batches_tracked"}};
  }

  [[nodiscard]] std::vector<std::string> families() const override { return {"torchvision_resnet"}; }
};

using Factory = models::FactoryWithFormat<Resnet, ResnetFormat>;

}  // namespace
}  // namespace resnet

STRATA_PLUGIN(model, "resnet", "0.1.0", "Apache-2.0",
              "ResNet, by name of size or by fields: classification of images by residual convolutions.",
              resnet::Factory);
