#include "resnet.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/classification.hpp"
#include "common/images.hpp"
#include "common/options.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"
#include "strata/plugin.hpp"

namespace resnet {
namespace {

using namespace strata;
using models::size_option;

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

}  // namespace

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

namespace {

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

using Factory = models::FactoryWithFormat<Resnet, ResnetFormat>;

}  // namespace
}  // namespace resnet

STRATA_PLUGIN(model, "resnet", "0.1.0", "Apache-2.0",
              "ResNet, by name of size or by fields: classification of images by residual convolutions.",
              resnet::Factory);
