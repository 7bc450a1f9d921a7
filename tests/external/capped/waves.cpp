/// waves: a dataset without files. A sample is a sine of a frequency and a phase of its own, rounded to levels.

#include <cmath>
#include <numbers>

#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kLevels = 16;
constexpr std::int64_t kTrainingSamples = 4000;
constexpr std::int64_t kValidationSamples = 100;

class Waves final : public Dataset {
 public:
  explicit Waves(const DimSizes& sizes) : length_(sizes.at("time")) {
    const auto found = sizes.find("frequency");
    if (found != sizes.end()) frequencies_ = found->second;
  }

  [[nodiscard]] DimSizes sizes() const override { return {{"time", length_}, {"level", kLevels}}; }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override {
    return split == DataSplit::training ? kTrainingSamples : kValidationSamples;
  }

  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    const auto number = static_cast<double>(key.index + (key.split == DataSplit::validation ? kTrainingSamples : 0));
    const double cycles = 1 + std::fmod(number * std::numbers::phi, 4);
    const double phase = std::fmod(number * std::numbers::sqrt2, 2 * std::numbers::pi);
    for (const int shift : {0, 1}) {
      auto* levels = static_cast<std::int32_t*>(destinations[static_cast<std::size_t>(shift)]);
      for (std::int64_t i = 0; i < length_ && levels != nullptr; ++i) {
        const double angle = 2 * std::numbers::pi * cycles * static_cast<double>(i + shift) / 32 + phase;
        levels[i] = static_cast<std::int32_t>((std::sin(angle) + 1) / 2 * (kLevels - 1) + 0.5);
      }
    }
    auto* spectrum = static_cast<float*>(destinations[2]);
    for (std::int64_t i = 0; i < frequencies_ && spectrum != nullptr; ++i) {
      spectrum[i] = static_cast<float>(std::exp(-std::pow(cycles - static_cast<double>(i), 2)));
    }
  }

  [[nodiscard]] std::string fingerprint() const override { return "waves 1"; }
  [[nodiscard]] std::string description() const override {
    return std::to_string(kTrainingSamples + kValidationSamples) + " sines";
  }

 private:
  std::int64_t length_;
  std::int64_t frequencies_ = 0;
};

class WavesFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  /// The model that reads "spectrum" says how many frequencies it has. To all others it is nothing.
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return {{.name = "levels", .dims = {"time"}, .indexes = "level"},
            {.name = "next", .dims = {"time"}, .indexes = "level", .is_target = true},
            {.name = "spectrum", .dims = {"frequency"}, .dtype = DType::f32}};
  }
  [[nodiscard]] DimSizes sizes(const Options& /*options*/) const override { return {{"level", kLevels}}; }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "level"; }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& /*options*/,
                                              const DatasetRequest& request) const override {
    if (!request.sizes.contains("time")) throw ConfigurationError("the model fixes no size of 'time'");
    return std::make_unique<Waves>(request.sizes);
  }

 private:
  OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(dataset, "waves", "1.0.0", "MIT", "Sines, rounded to levels.", WavesFactory);
