#include <algorithm>

#include "image_dataset.hpp"
#include "strata/error.hpp"

namespace images {
namespace {

using namespace strata;

OptionSpecification list_of(const std::string& name, OptionType type, const OptionValue& empty,
                            const std::string& documentation, bool may_differ = false) {
  return {.name = name, .type = type, .default_value = empty, .documentation = documentation, .may_differ = may_differ};
}

OptionSchema make_schema() {
  OptionSpecification deviation =
      list_of("std", OptionType::numbers, std::vector<double>{},
              "Standard deviation of each channel, by which it is divided after `mean`. Empty: 1.");
  deviation.minimum = 1e-6;
  return OptionSchema({
      option::word("format", "cifar10",
                   "cifar10: the binary files of CIFAR-10. mnist: IDX files as MNIST has them, not compressed.",
                   {"cifar10", "mnist"}),
      {.name = "paths",
       .type = OptionType::words,
       .documentation = "Files for training. With mnist, pairs: a file of images, the file of their labels.",
       .may_differ = true},
      list_of("validation_paths", OptionType::words, std::vector<std::string>{}, "Files for evaluation, likewise.",
              true),
      option::integer("classes", 10, 1, 256, "Number of different labels."),
      list_of("mean", OptionType::numbers, std::vector<double>{},
              "Mean of each channel, which is subtracted from values of 0 to 1. Empty: 0."),
      deviation,
      option::boolean("flip", false, "Mirror half of the images of training, chosen anew in every epoch."),
      option::integer("crop", 0, 0, 64, "Shift images of training by up to so many pixels, with a black border."),
  });
}

/// Opens the files of an option.
std::vector<ImageFile> open_files(const Options& options, const std::string& option) {
  const std::vector<std::string>& paths = options.words(option);
  const bool pairs = options.word("format") == "mnist";
  if (pairs && paths.size() % 2 != 0) {
    throw OptionError(option, "found " + std::to_string(paths.size()) +
                                  " files; accepted: pairs of a file of images and the file of their labels");
  }
  std::vector<ImageFile> files;
  try {
    for (std::size_t i = 0; i < paths.size(); i += pairs ? 2 : 1) {
      files.push_back(pairs ? open_mnist(paths[i], paths[i + 1]) : open_cifar10(paths[i]));
    }
  } catch (const ConfigurationError& error) {
    throw OptionError(option, error.what());
  }
  return files;
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

class ImagesFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override { return image_inputs(); }
  [[nodiscard]] DimSizes sizes(const Options& options) const override {
    const bool colours = options.word("format") == "cifar10";
    const std::int64_t side = colours ? 32 : 28;
    return {{"channels", colours ? 3 : 1}, {"height", side}, {"width", side}, {"classes", options.integer("classes")}};
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
    const ImageSize size = data.training.front().size;
    for (const auto* files : {&data.training, &data.validation}) require_size(*files, size);
    data.classes = options.integer("classes");
    data.mean = by_channel(options, "mean", 0, size.channels);
    data.deviation = by_channel(options, "std", 1, size.channels);
    data.flip = options.boolean("flip");
    data.crop = options.integer("crop");
    data.fingerprint = fingerprint_of(options);
    return std::make_unique<ImageDataset>(std::move(data));
  }

 private:
  static void require_size(const std::vector<ImageFile>& files, const ImageSize& size) {
    for (const ImageFile& file : files) {
      if (file.size == size) continue;
      throw OptionError("paths", "'" + file.pixels->path().string() + "': found images of " +
                                     std::to_string(file.size.height) + " x " + std::to_string(file.size.width) +
                                     "; accepted: " + std::to_string(size.height) + " x " + std::to_string(size.width) +
                                     ", as in the first file");
    }
  }

  static std::string fingerprint_of(const Options& options) {
    std::vector<DataFile> files;
    for (const char* option : {"paths", "validation_paths"}) {
      for (const std::string& path : options.words(option)) files.emplace_back(path);
    }
    return strata::fingerprint(files);
  }

  OptionSchema schema_ = make_schema();
};

}  // namespace
}  // namespace images

STRATA_PLUGIN(dataset, "images", "0.1.0", "Apache-2.0", "Labelled images in the files of CIFAR-10 or MNIST.",
              images::ImagesFactory);
