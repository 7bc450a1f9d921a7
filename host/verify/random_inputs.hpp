#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor.hpp"
#include "strata/dataset.hpp"

namespace strata::host {

/// Random values for the inputs of a dataset, keyed by global index, so that every layout sees the same ones. Integers
/// lie below the size of the dimension that they index. If they index their own dimension, they count up if all samples
/// share them, as positions, and ascend at random if not, as the numbers of documents. Floating-point values are
/// normal. One target in five is left out, so that ranks have different counts.
class RandomInputs final : public InputSource {
 public:
  /// `sizes`: the sizes of the dimensions that integers index.
  RandomInputs(std::uint64_t seed, std::vector<DatasetInput> inputs, DimSizes sizes);

  void load(const InputPart& part, std::uint64_t step) override;

 private:
  /// What determines the values of one input in one step.
  struct Stream {
    const DatasetInput& input;
    std::uint64_t key = 0;
    std::int64_t limit = 0;
    /// Index up to which the ascents of its sample are counted, and their number.
    std::uint64_t counted = 0;
    std::int64_t steps = 0;
  };

  static void fill(Stream& stream, const InputPart& part, std::size_t dim, std::int64_t index, std::int64_t& written);
  static double value(Stream& stream, std::uint64_t index);
  static double own_index(Stream& stream, std::uint64_t index);

  std::uint64_t seed_;
  std::vector<DatasetInput> inputs_;
  DimSizes sizes_;
};

}  // namespace strata::host
