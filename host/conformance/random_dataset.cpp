#include "conformance/random_dataset.hpp"

#include <utility>

#include "runtime/element.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kSamples = 256;

class RandomDataset final : public Dataset {
 public:
  RandomDataset(std::vector<DatasetInput> inputs, DimSizes sizes)
      : inputs_(std::move(inputs)), sizes_(std::move(sizes)) {}

  [[nodiscard]] DimSizes sizes() const override { return sizes_; }
  [[nodiscard]] std::int64_t samples(DataSplit /*split*/) const override { return kSamples; }

  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (destinations[i] != nullptr && inputs_[i].per_sample) fill(inputs_[i], key, destinations[i]);
    }
  }
  void read_common(std::span<void* const> destinations) const override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (destinations[i] != nullptr && !inputs_[i].per_sample) fill(inputs_[i], {}, destinations[i]);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "random"; }
  [[nodiscard]] std::string description() const override { return std::to_string(kSamples) + " random samples"; }

 private:
  void fill(const DatasetInput& input, const SampleKey& key, void* destination) const {
    const std::string stream = input.name + (key.split == DataSplit::training ? "" : "/validation");
    const std::uint64_t random = random::stream_key(key.seed, stream, static_cast<std::uint64_t>(key.index));
    const std::int64_t count = element_count(shape_of(input.dims, sizes_));
    const std::int64_t limit = input.indexes.empty() ? 2 : sizes_.at(input.indexes);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      double value = random::normal(random, index);
      if (input.dtype == DType::i32) {
        // An input that indexes its own dimension counts up, as positions do.
        const bool counts = input.dims == Dims{input.indexes};
        value = counts && !input.per_sample
                    ? static_cast<double>(i)
                    : static_cast<double>(random::below(random, index, static_cast<std::uint64_t>(limit)));
      }
      store_element(input.dtype, destination, i, value);
    }
  }

  std::vector<DatasetInput> inputs_;
  DimSizes sizes_;
};

/// The sizes of the dimensions that inputs have or index.
DimSizes sizes_of_inputs(const RunSetup& setup) {
  const DimSizes all = setup.sizes_without_data();
  DimSizes sizes;
  for (const DatasetInput& input : setup.inputs) {
    for (const Dim& dim : input.dims) sizes[dim] = all.at(dim);
    if (!input.indexes.empty()) sizes[input.indexes] = all.at(input.indexes);
  }
  return sizes;
}

}  // namespace

DataSource random_data(const RunSetup& setup) {
  return {setup.plugins.dataset.origin, setup.inputs,
          std::make_unique<RandomDataset>(setup.inputs, sizes_of_inputs(setup))};
}

}  // namespace strata::host
