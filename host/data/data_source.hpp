#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/stack.hpp"
#include "loading/plugin_call.hpp"
#include "strata/dataset.hpp"

namespace strata::host {

/// Index of the input called `name` with `dims` dimensions, "batch" included. Empty if there is none.
[[nodiscard]] std::optional<std::size_t> find_input(const std::vector<DatasetInput>& inputs, const std::string& name,
                                                    std::size_t dims);

/// The type of the graph input that reads `input` in a run whose floating-point type is `float_type`.
[[nodiscard]] TensorType graph_type(const DatasetInput& input, DType float_type);

/// Sizes that a plugin states. \throws PluginError unless all are at least 1, of dimensions other than "batch".
[[nodiscard]] DimSizes checked_sizes(const PluginOrigin& origin, DimSizes sizes);

/// The data of a run: an open dataset whose errors name the plugin. Thread-safe.
class DataSource {
 public:
  /// \throws PluginError if the dataset makes impossible statements about itself.
  DataSource(PluginOrigin origin, std::vector<DatasetInput> inputs, std::shared_ptr<const Dataset> dataset);

  [[nodiscard]] const PluginOrigin& origin() const { return origin_; }
  [[nodiscard]] const std::vector<DatasetInput>& inputs() const { return inputs_; }
  /// The sizes that the data fixes.
  [[nodiscard]] const DimSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t samples(DataSplit split) const {
    return split == DataSplit::training ? training_ : validation_;
  }
  [[nodiscard]] const std::optional<Vocabulary>& vocabulary() const { return vocabulary_; }
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] std::string description() const;
  void read(const SampleKey& key, std::span<void* const> destinations) const;
  void read_common(std::span<void* const> destinations) const;

 private:
  PluginOrigin origin_;
  std::vector<DatasetInput> inputs_;
  std::shared_ptr<const Dataset> dataset_;
  DimSizes sizes_;
  std::int64_t training_ = 0;
  std::int64_t validation_ = 0;
  std::optional<Vocabulary> vocabulary_;
};

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

/// Sizes of dimensions, and the name in messages of the plugin that fixes them.
struct FixedSizes {
  std::string by;
  const DimSizes& sizes;
};

/// Joins the sizes that model and data fix. A dimension in the shape of an input must have one size. A dimension that
/// values only index may be larger in the model. A dimension may stay without a size: perhaps no model reads the input.
/// \throws ConfigurationError if sizes do not agree.
[[nodiscard]] DimSizes join_sizes(const FixedSizes& model, const FixedSizes& data,
                                  const std::vector<DatasetInput>& inputs);

/// The dimensions that values of inputs index and no input has, such as "vocab".
[[nodiscard]] std::vector<Dim> indexed_dims(const std::vector<DatasetInput>& inputs);

/// Adds small sizes for the dimensions of `inputs` that have none, which the rules of `stack` divide.
void add_small_sizes(DimSizes& sizes, const std::vector<DatasetInput>& inputs, const Stack& stack);

/// Required divisor of each dimension, so that all rules of the stack apply to it.
[[nodiscard]] std::map<Dim, std::int64_t> required_multiples(const Stack& stack);

}  // namespace strata::host
