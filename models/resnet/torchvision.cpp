#include <variant>

#include "common/huggingface.hpp"
#include "common/tensor_list.hpp"
#include "resnet.hpp"
#include "strata/error.hpp"

namespace resnet {
namespace {

using namespace strata;

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
  const auto found = config.values().find("layers");
  const auto* layers =
      found == config.values().end() || !found->second ? nullptr : std::get_if<std::vector<double>>(&*found->second);
  if (layers != nullptr && layers->size() == kStages) return *layers;
  throw OptionError("layers",
                    "found no list of four numbers; accepted: the blocks of four stages, such as [2, 2, 2, 2]");
}

}  // namespace

std::optional<Options> ResnetFormat::options(const HuggingFaceFields& config) const {
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

HuggingFaceFields ResnetFormat::config(const Options& options, const DimSizes& sizes) const {
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
                            {"num_classes", OptionValue(models::class_count(settings.classes, sizes))}});
}

HuggingFaceTensors ResnetFormat::tensors(const Options& options, const DimSizes& sizes) const {
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
  list.add_linear("fc", models::class_count(settings.classes, sizes), in);
  return {.tensors = list.take(), .ignored = {"*.num_batches_tracked"}};
}

}  // namespace resnet
