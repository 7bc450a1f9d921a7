/// drawn_pairs: random pairs of a source and a target of different lengths. They need no file.

#include "strata/dataset.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kSamples = 96;

const std::vector<DatasetInput>& pair_inputs() {
  static const std::vector<DatasetInput> kInputs = {
      {.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
      {.name = "letters", .dims = {"letter"}, .indexes = "alphabet"},
      {.name = "weights", .dims = {"seq"}, .dtype = DType::f32},
      {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
      {.name = "letter_targets", .dims = {"letter"}, .indexes = "alphabet", .is_target = true},
      // No drawn graph reads these.
      {.name = "unused", .dims = {"letter"}, .indexes = "alphabet"},
      {.name = "extra", .dims = {"seq"}, .dtype = DType::f32}};
  return kInputs;
}

class Pairs final : public Dataset {
 public:
  explicit Pairs(DimSizes sizes) : sizes_(std::move(sizes)) {}

  [[nodiscard]] DimSizes sizes() const override { return sizes_; }
  [[nodiscard]] std::int64_t samples(DataSplit /*split*/) const override { return kSamples; }

  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    for (std::size_t i = 0; i < pair_inputs().size(); ++i) {
      if (destinations[i] != nullptr) fill(pair_inputs()[i], key, destinations[i]);
    }
  }

  [[nodiscard]] std::string fingerprint() const override { return "drawn pairs"; }
  [[nodiscard]] std::string description() const override { return std::to_string(kSamples) + " drawn pairs"; }

 private:
  void fill(const DatasetInput& input, const SampleKey& key, void* destination) const {
    const std::string stream = input.name + (key.split == DataSplit::training ? "" : "/validation");
    const std::uint64_t numbers = random::stream_key(0, stream, static_cast<std::uint64_t>(key.index));
    const auto count = static_cast<std::uint64_t>(element_count(shape_of(input.dims, sizes_)));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (input.dtype == DType::f32) {
        static_cast<float*>(destination)[i] = static_cast<float>(random::normal(numbers, i));
        continue;
      }
      const auto limit = static_cast<std::uint64_t>(sizes_.at(input.indexes));
      static_cast<std::int32_t*>(destination)[i] = static_cast<std::int32_t>(random::below(numbers, i, limit));
    }
  }

  DimSizes sizes_;
};

class PairsFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override { return pair_inputs(); }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& /*options*/,
                                              const DatasetRequest& request) const override {
    DimSizes sizes;
    for (const char* dim : {"seq", "letter", "vocab", "alphabet"}) {
      const auto found = request.sizes.find(dim);
      if (found == request.sizes.end())
        throw ConfigurationError("the model fixes no size of '" + std::string(dim) + "'");
      sizes[dim] = found->second;
    }
    return std::make_unique<Pairs>(std::move(sizes));
  }

 private:
  OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(dataset, "drawn_pairs", "1.0.0", "Apache-2.0", "Random pairs of two lengths.", PairsFactory);
