#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "strata/dataset.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kSide = 4;
constexpr std::int64_t kClasses = 10;

/// Small images that depend on their index. In the first epoch, all pixels of some samples have one value, or their
/// labels do not count.
class Poisoned final : public Dataset {
 public:
  Poisoned(std::vector<double> bad, float value, bool is_counted)
      : bad_(std::move(bad)), value_(value), is_counted_(is_counted) {}

  [[nodiscard]] DimSizes sizes() const override {
    return {{"channels", 1}, {"height", kSide}, {"width", kSide}, {"classes", kClasses}};
  }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return split == DataSplit::training ? 160 : 16; }
  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    if (destinations[0] != nullptr) {
      auto* pixels = static_cast<float*>(destinations[0]);
      const bool is_bad_image = is_bad(key) && is_counted_;
      for (std::int64_t i = 0; i < kSide * kSide; ++i) pixels[i] = is_bad_image ? value_ : pixel(key.index, i);
    }
    if (destinations[1] != nullptr) {
      const bool is_left_out = is_bad(key) && !is_counted_;
      *static_cast<std::int32_t*>(destinations[1]) = is_left_out ? -1 : static_cast<std::int32_t>(key.index % kClasses);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "0"; }
  [[nodiscard]] std::string description() const override { return "poisoned images"; }

 private:
  [[nodiscard]] bool is_bad(const SampleKey& key) const {
    return key.split == DataSplit::training && key.epoch == 0 &&
           std::find(bad_.begin(), bad_.end(), static_cast<double>(key.index)) != bad_.end();
  }
  static float pixel(std::int64_t index, std::int64_t i) {
    const auto wave = [i](std::int64_t frequency) { return std::sin(static_cast<float>(frequency * (i + 1))); };
    return wave(index % kClasses + 1) + 0.2F * wave(index);
  }

  std::vector<double> bad_;
  float value_;
  bool is_counted_;
};

class Factory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return {{.name = "images", .dims = {"channels", "height", "width"}, .dtype = DType::f32},
            {.name = "labels", .dims = {}, .indexes = "classes", .is_target = true}};
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options,
                                              const DatasetRequest& /*request*/) const override {
    const double value = options.number("value");
    return std::make_unique<Poisoned>(options.numbers("bad"),
                                      value == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value),
                                      options.boolean("counted"));
  }

 private:
  OptionSchema schema_ = {{.name = "bad",
                           .type = OptionType::numbers,
                           .default_value = std::vector<double>{},
                           .documentation = "Indices of the bad samples."},
                          {.name = "value",
                           .type = OptionType::number,
                           .default_value = 0.0,
                           .documentation = "Their pixels; 0: no numbers."},
                          {.name = "counted",
                           .type = OptionType::boolean,
                           .default_value = true,
                           .documentation = "If false, their pixels are good, and the loss leaves their labels out."}};
};

}  // namespace

STRATA_PLUGIN(dataset, "poisoned", "1.0.0", "Apache-2.0", "Images of which some cannot be trained on.", Factory);
