#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/compile.hpp"
#include "data/data_source.hpp"
#include "runtime/executor.hpp"
#include "strata/dataset.hpp"
#include "strata/dtype.hpp"
#include "strata/layout.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// The part of a step's data that the ranks of this process load.
struct BatchNeeds {
  /// By input of the dataset: true if a rank loads it.
  std::vector<bool> inputs;
  /// Samples within the step's batch, ascending.
  std::vector<std::int64_t> samples;
};

/// Collects what the programs of `ranks` load.
[[nodiscard]] BatchNeeds batch_needs(const Compiled& compiled, const std::vector<int>& ranks,
                                     const std::vector<DatasetInput>& inputs);

/// The samples of one step that this process needs, in the order of BatchNeeds::samples, by input. Inputs that are not
/// needed or that all samples share have no values here.
struct Batch {
  std::vector<std::vector<std::byte>> values;
};

/// Reads batches, and copies the ranks' parts of them. Thread-safe.
class BatchReader {
 public:
  /// The key of a sample of a step. Empty for a sample that only fills up the last batch.
  using FindSample = std::function<std::optional<SampleKey>(std::uint64_t step, std::int64_t sample)>;

  /// `source` outlives the reader. `sizes`: the sizes of all dimensions of its inputs.
  BatchReader(const DataSource& source, const DimSizes& sizes, BatchNeeds needs, FindSample find);

  /// Bytes of one batch.
  [[nodiscard]] std::int64_t batch_bytes() const;
  /// Reads the samples of `step`. \throws RuntimeError if that fails, or if an integer lies outside of the dimension
  /// that it indexes.
  void read(std::uint64_t step, Batch& batch) const;
  /// Copies one rank's part of a batch, as InputSource::load() says.
  void load(const Batch& batch, const InputPart& part) const;

 private:
  struct Layout {
    /// Elements of one sample.
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    /// Integers are below this.
    std::int64_t limit = 0;
  };

  void fill(Batch& batch, std::size_t row) const;
  void require_in_range(std::size_t input, const std::vector<std::byte>& values) const;
  [[nodiscard]] std::int64_t row_of(std::int64_t sample) const;

  const DataSource& source_;
  BatchNeeds needs_;
  FindSample find_;
  std::vector<Layout> layouts_;
  /// Values of the inputs that all samples share.
  std::vector<std::vector<std::byte>> common_;
};

}  // namespace strata::host
