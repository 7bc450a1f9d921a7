/// my_plugin: a dataset without files. A sample counts upwards from a number of its own, in steps of its own, so the
/// next token follows from the two before it.

#include <numeric>
#include <string>

#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace {

constexpr std::int64_t kTrainingSamples = 10000;
constexpr std::int64_t kValidationSamples = 100;

class MyPluginDataset final : public strata::Dataset {
 public:
  MyPluginDataset(std::int64_t length, std::int64_t vocab) : length_(length), vocab_(vocab) {}

  [[nodiscard]] strata::DimSizes sizes() const override { return {{"seq", length_}, {"vocab", vocab_}}; }

  [[nodiscard]] std::int64_t samples(strata::DataSplit split) const override {
    return split == strata::DataSplit::training ? kTrainingSamples : kValidationSamples;
  }

  /// A sample depends on its key only, so that every layout of ranks sees the same data. Several threads may read.
  void read(const strata::SampleKey& key, std::span<void* const> destinations) const override {
    const std::int64_t number = key.index + (key.split == strata::DataSplit::validation ? kTrainingSamples : 0);
    const std::int64_t first = number % vocab_;
    const std::int64_t step = number / vocab_ % 7 + 1;
    const auto fill = [&](void* destination, std::int64_t offset) {
      auto* tokens = static_cast<std::int32_t*>(destination);
      if (tokens == nullptr) return;
      for (std::int64_t i = 0; i < length_; ++i) {
        tokens[i] = static_cast<std::int32_t>((first + (i + offset) * step) % vocab_);
      }
    };
    fill(destinations[0], 0);
    fill(destinations[1], 1);
  }

  void read_common(std::span<void* const> destinations) const override {
    auto* positions = static_cast<std::int32_t*>(destinations[2]);
    if (positions != nullptr) std::iota(positions, positions + length_, 0);
  }

  [[nodiscard]] std::string fingerprint() const override { return "my_plugin 1 " + std::to_string(vocab_); }
  [[nodiscard]] std::string description() const override {
    return std::to_string(kTrainingSamples + kValidationSamples) + " counted sequences";
  }

 private:
  std::int64_t length_;
  std::int64_t vocab_;
};

class MyPluginFactory final : public strata::DatasetFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  /// read() gets memory for these inputs, in this order. Models read them by name.
  [[nodiscard]] std::vector<strata::DatasetInput> inputs(const strata::Options& /*options*/) const override {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
            {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
  }
  [[nodiscard]] strata::DimSizes sizes(const strata::Options& options) const override {
    return {{"vocab", options.integer("vocab")}};
  }
  [[nodiscard]] std::string unit(const strata::Options& /*options*/) const override { return "token"; }

  [[nodiscard]] std::unique_ptr<strata::Dataset> open(const strata::Options& options,
                                                      const strata::DatasetRequest& request) const override {
    const auto length = request.sizes.find("seq");
    if (length == request.sizes.end()) throw strata::ConfigurationError("the model fixes no size of 'seq'");
    return std::make_unique<MyPluginDataset>(length->second, options.integer("vocab"));
  }

 private:
  strata::OptionSchema schema_{{.name = "vocab",
                                .type = strata::OptionType::integer,
                                .default_value = std::int64_t{64},
                                .documentation = "Number of different tokens.",
                                .minimum = 2,
                                .maximum = 65536}};
};

}  // namespace

STRATA_PLUGIN(dataset, "my_plugin", "0.1.0", "Apache-2.0", "Sequences that count upwards.", MyPluginFactory);
