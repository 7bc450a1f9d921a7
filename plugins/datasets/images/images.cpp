#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "image_source.hpp"
#include "shared/data_option.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace images {
namespace {

using namespace strata;
using datasets::data_option;

using Sources = std::vector<Source>;

/// What an ImageDataset is made of.
struct ImageData {
  Sources training;
  Sources validation;
  std::int64_t classes = 0;
  /// By channel: the value of each byte.
  std::vector<std::array<float, 256>> values;
  /// Training mirrors half of the images, if true, and shifts them by up to `crop` pixels.
  bool flip = false;
  std::int64_t crop = 0;
  std::string fingerprint;
};

/// The inputs: "images" [batch channels height width] and "labels" [batch].
std::vector<DatasetInput> image_inputs() {
  return {{.name = "images", .dims = {"channels", "height", "width"}, .dtype = DType::f32},
          {.name = "labels", .dims = {}, .indexes = "classes", .is_target = true}};
}

/// Images and their labels, in the order of the files.
class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(ImageData data) : data_(std::move(data)), size_(data_.training.front()->size()) {}

  [[nodiscard]] DimSizes sizes() const override {
    return {{"channels", size_.channels}, {"height", size_.height}, {"width", size_.width}, {"classes", data_.classes}};
  }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override {
    std::int64_t samples = 0;
    for (const auto& source : split == DataSplit::training ? data_.training : data_.validation)
      samples += source->count();
    return samples;
  }
  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    std::int64_t index = key.index;
    const Sources& sources = key.split == DataSplit::training ? data_.training : data_.validation;
    auto source = sources.begin();
    for (; index >= (*source)->count(); ++source) index -= (*source)->count();
    if (destinations[0] != nullptr) {
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(size_.pixels()));
      (*source)->read_pixels(index, pixels.data());
      write(pixels, view_of(key), static_cast<float*>(destinations[0]));
    }
    if (destinations[1] != nullptr) {
      *static_cast<std::int32_t*>(destinations[1]) = (*source)->read_label(index, data_.classes);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return data_.fingerprint; }
  [[nodiscard]] std::string description() const override {
    return std::to_string(samples(DataSplit::training)) + " images of '" + data_.training.front()->path() + "'" +
           (data_.training.size() == 1 ? "" : " and " + std::to_string(data_.training.size() - 1) + " more");
  }

 private:
  /// How one image is augmented.
  struct View {
    bool is_mirrored = false;
    std::int64_t down = 0;
    std::int64_t right = 0;
  };

  [[nodiscard]] View view_of(const SampleKey& key) const {
    View view;
    if (key.split != DataSplit::training) return view;
    const std::uint64_t stream = random::stream_key(key.seed, "image view", key.epoch);
    const auto words = random::philox4x32(stream, static_cast<std::uint64_t>(key.index));
    const auto shifts = static_cast<std::uint32_t>(2 * data_.crop + 1);
    view.is_mirrored = data_.flip && words[0] % 2 == 1;
    view.down = static_cast<std::int64_t>(words[1] % shifts) - data_.crop;
    view.right = static_cast<std::int64_t>(words[2] % shifts) - data_.crop;
    return view;
  }
  void write(const std::vector<std::uint8_t>& pixels, const View& view, float* destination) const {
    for (std::int64_t channel = 0; channel < size_.channels; ++channel) {
      const std::array<float, 256>& values = data_.values[static_cast<std::size_t>(channel)];
      for (std::int64_t y = 0; y < size_.height; ++y) {
        for (std::int64_t x = 0; x < size_.width; ++x) {
          const std::int64_t row = y - view.down;
          const std::int64_t column = (view.is_mirrored ? size_.width - 1 - x : x) - view.right;
          const bool is_inside = row >= 0 && row < size_.height && column >= 0 && column < size_.width;
          // A shifted image has a black border.
          const auto at = static_cast<std::size_t>((channel * size_.height + row) * size_.width + column);
          *destination++ = values[is_inside ? pixels[at] : 0];
        }
      }
    }
  }

  ImageData data_;
  ImageSize size_;
};

constexpr double kLargestScaledSide = 65536;

OptionSchema make_schema() {
  OptionSpecification deviation =
      data_option("std", OptionType::numbers, std::vector<double>{},
                  "Standard deviation of each channel, by which it is divided after `mean`. Empty: 1.");
  deviation.minimum = 1e-6;
  return OptionSchema({
      option::word("format", "cifar10",
                   "cifar10: the binary files of CIFAR-10. mnist: IDX files as MNIST has them, not compressed. folder: "
                   "a folder of PNG and JPEG files for each class.",
                   {"cifar10", "mnist", "folder"}),
      data_option(
          "paths", OptionType::words, std::nullopt,
          "Files for training. With mnist, pairs: a file of images, the file of their labels. With folder, folders "
          "that hold a folder for each class.",
          OptionRole::training_data),
      data_option("validation_paths", OptionType::words, std::vector<std::string>{}, "Files for evaluation, likewise.",
                  OptionRole::validation_data),
      option::integer("classes", 10, 1, 65536, "Number of different labels."),
      option::integer("height", 224, 1, kLargestScaledSide, "With folder: the height to which images are scaled."),
      option::integer("width", 224, 1, kLargestScaledSide, "With folder: the width likewise."),
      data_option("mean", OptionType::numbers, std::vector<double>{},
                  "Mean of each channel, which is subtracted from values of 0 to 1. Empty: 0."),
      deviation,
      option::boolean("flip", false, "Mirror half of the images of training, chosen anew in every epoch."),
      option::integer("crop", 0, 0, 64, "Shift images of training by up to so many pixels, with a black border."),
  });
}

/// Opens the files of an option.
Sources open_files(const Options& options, const std::string& option) {
  const std::vector<std::string>& paths = options.words(option);
  const std::string format = options.word("format");
  const bool pairs = format == "mnist";
  if (pairs && paths.size() % 2 != 0) {
    throw OptionError(option, "found " + std::to_string(paths.size()) +
                                  " files; accepted: pairs of a file of images and the file of their labels");
  }
  Sources sources;
  try {
    for (std::size_t i = 0; i < paths.size(); i += pairs ? 2 : 1) {
      if (format == "folder") {
        const ImageSize size{3, options.integer("height"), options.integer("width")};
        sources.push_back(open_folder(paths[i], size, options.integer("classes")));
      } else {
        sources.push_back(pairs ? open_mnist(paths[i], paths[i + 1]) : open_cifar10(paths[i]));
      }
    }
  } catch (const ConfigurationError& error) {
    throw OptionError(option, error.what());
  }
  return sources;
}

/// One number for each channel.
std::vector<double> by_channel(const Options& options, const std::string& option, double otherwise,
                               std::int64_t channels) {
  std::vector<double> numbers = options.numbers(option);
  if (numbers.empty()) numbers.resize(static_cast<std::size_t>(channels), otherwise);
  if (std::ssize(numbers) == channels) return numbers;
  throw OptionError(option, "found " + std::to_string(numbers.size()) +
                                " numbers; accepted: " + std::to_string(channels) + ", one for each channel");
}

/// (byte / 255 - mean) / std, by channel and byte.
std::vector<std::array<float, 256>> byte_values(const Options& options, std::int64_t channels) {
  const std::vector<double> means = by_channel(options, "mean", 0, channels);
  const std::vector<double> deviations = by_channel(options, "std", 1, channels);
  std::vector<std::array<float, 256>> values(means.size());
  for (std::size_t channel = 0; channel < values.size(); ++channel) {
    for (std::size_t byte = 0; byte < values[channel].size(); ++byte) {
      const double value = static_cast<double>(byte) / 255.0;
      values[channel][byte] = static_cast<float>((value - means[channel]) / deviations[channel]);
    }
  }
  return values;
}

class ImagesFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override { return image_inputs(); }
  [[nodiscard]] DimSizes sizes(const Options& options) const override {
    DimSizes sizes{{"channels", 3}, {"height", 32}, {"width", 32}, {"classes", options.integer("classes")}};
    if (options.word("format") == "mnist") {
      sizes["channels"] = 1;
      sizes["height"] = sizes["width"] = 28;
    } else if (options.word("format") == "folder") {
      sizes["height"] = options.integer("height");
      sizes["width"] = options.integer("width");
    }
    return sizes;
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "image"; }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    ImageData data;
    data.training = open_files(options, "paths");
    data.validation = open_files(options, "validation_paths");
    if (data.training.empty()) throw OptionError("paths", "found no file; accepted: at least one");
    if (request.validates && data.validation.empty()) {
      throw OptionError("validation_paths", "found no file; accepted: at least one, since run.eval_every is not 0");
    }
    const ImageSize size = data.training.front()->size();
    for (const auto* sources : {&data.training, &data.validation}) {
      require_size(*sources, size);
      for (const auto& source : *sources)
        data.fingerprint += (data.fingerprint.empty() ? "" : " ") + source->fingerprint();
    }
    data.classes = options.integer("classes");
    data.values = byte_values(options, size.channels);
    data.flip = options.boolean("flip");
    data.crop = options.integer("crop");
    return std::make_unique<ImageDataset>(std::move(data));
  }

 private:
  static void require_size(const Sources& sources, const ImageSize& size) {
    for (const auto& source : sources) {
      const ImageSize found = source->size();
      if (found == size) continue;
      throw OptionError("paths", "'" + source->path() + "': found images of " + std::to_string(found.height) + " x " +
                                     std::to_string(found.width) + "; accepted: " + std::to_string(size.height) +
                                     " x " + std::to_string(size.width) + ", as in the first file");
    }
  }

  OptionSchema schema_ = make_schema();
};

}  // namespace
}  // namespace images

STRATA_PLUGIN(dataset, "images", "0.1.0", "Apache-2.0",
              "Labelled images in the files of CIFAR-10 or MNIST, or in folders of PNG and JPEG.",
              images::ImagesFactory);
