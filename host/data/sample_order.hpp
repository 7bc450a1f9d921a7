#pragma once

#include <cstdint>

namespace strata::host {

/// The place of a sample of the run in its dataset.
struct SamplePlace {
  std::uint64_t epoch = 0;
  std::int64_t index = 0;

  bool operator==(const SamplePlace&) const = default;
};

/// Maps sample g of a run to a sample of the dataset. Each epoch visits every sample once, in its own random order. The
/// mapping depends only on the seed and the number of samples.
class SampleOrder {
 public:
  /// `samples`: number of samples of an epoch, at least 1.
  SampleOrder(std::uint64_t seed, std::int64_t samples) : seed_(seed), samples_(static_cast<std::uint64_t>(samples)) {}

  [[nodiscard]] SamplePlace operator()(std::uint64_t sample) const;

 private:
  std::uint64_t seed_;
  std::uint64_t samples_;
};

}  // namespace strata::host
