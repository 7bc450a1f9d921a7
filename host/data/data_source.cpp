#include "data/data_source.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

/// Sizes if neither the model nor the dataset fixes one.
constexpr std::int64_t kSmallIndexed = 256;
constexpr std::int64_t kSmall = 8;

bool is_in_shape(const std::vector<DatasetInput>& inputs, const Dim& dim) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const DatasetInput& input) { return contains(input.dims, dim); });
}

/// All dimensions that inputs have or index.
std::vector<Dim> dims_of(const std::vector<DatasetInput>& inputs) {
  std::vector<Dim> dims;
  for (const DatasetInput& input : inputs) {
    dims.insert(dims.end(), input.dims.begin(), input.dims.end());
    if (!input.indexes.empty()) dims.push_back(input.indexes);
  }
  return dims;
}

}  // namespace

std::optional<std::size_t> find_input(const std::vector<DatasetInput>& inputs, const std::string& name,
                                      std::size_t dims) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const DatasetInput& each) {
    return each.name == name && each.dims.size() + (each.per_sample ? 1 : 0) == dims;
  });
  if (found == inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - inputs.begin());
}

TensorType graph_type(const DatasetInput& input, DType float_type) {
  TensorType type{input.dims, is_floating_point(input.dtype) ? float_type : input.dtype};
  if (input.per_sample) type.dims.insert(type.dims.begin(), "batch");
  return type;
}

DimSizes checked_sizes(const PluginOrigin& origin, DimSizes sizes) {
  for (const auto& [dim, size] : sizes) {
    if (size >= 1 && dim != "batch") continue;
    throw PluginError(origin, "sizes", "",
                      "found '" + dim + "' = " + std::to_string(size) +
                          "; accepted: sizes of at least 1, of dimensions other than 'batch'");
  }
  return sizes;
}

DataSource::DataSource(PluginOrigin origin, std::vector<DatasetInput> inputs, std::shared_ptr<const Dataset> dataset)
    : origin_(std::move(origin)), inputs_(std::move(inputs)), dataset_(std::move(dataset)) {
  sizes_ = checked_sizes(origin_, call_plugin(origin_, "sizes", [&] { return dataset_->sizes(); }));
  training_ = call_plugin(origin_, "samples", [&] { return dataset_->samples(DataSplit::training); });
  validation_ = call_plugin(origin_, "samples", [&] { return dataset_->samples(DataSplit::validation); });
  vocabulary_ = call_plugin(origin_, "vocabulary", [&] { return dataset_->vocabulary(); });
  if (training_ >= 1 && validation_ >= 0) return;
  throw PluginError(origin_, "samples", "",
                    "found " + std::to_string(training_) + " samples for training and " + std::to_string(validation_) +
                        " for validation; accepted: at least 1 and 0");
}

std::string DataSource::fingerprint() const {
  return run_plugin(origin_, "fingerprint", [&] { return dataset_->fingerprint(); });
}

std::string DataSource::description() const {
  return call_plugin(origin_, "description", [&] { return dataset_->description(); });
}

void DataSource::read(const SampleKey& key, std::span<void* const> destinations) const {
  run_plugin(origin_, "read", [&] { dataset_->read(key, destinations); });
}

void DataSource::read_common(std::span<void* const> destinations) const {
  run_plugin(origin_, "read_common", [&] { dataset_->read_common(destinations); });
}

SamplePlace SampleOrder::operator()(std::uint64_t sample) const {
  const std::uint64_t epoch = sample / samples_;
  const std::uint64_t key = random::stream_key(seed_, "data order", epoch);
  return {epoch, static_cast<std::int64_t>(random::permuted(key, samples_, sample % samples_))};
}

DimSizes join_sizes(const FixedSizes& model, const FixedSizes& data, const std::vector<DatasetInput>& inputs) {
  DimSizes sizes = model.sizes;
  for (const auto& [dim, size] : data.sizes) {
    const auto [place, added] = sizes.try_emplace(dim, size);
    const bool exact = is_in_shape(inputs, dim);
    if (added || (exact ? place->second == size : place->second >= size)) continue;
    throw ConfigurationError("found '" + dim + "' = " + std::to_string(place->second) + " from " + model.by +
                             "; accepted: " + (exact ? "" : "at least ") + std::to_string(size) + ", as " + data.by +
                             " has");
  }
  return sizes;
}

std::vector<Dim> indexed_dims(const std::vector<DatasetInput>& inputs) {
  std::vector<Dim> dims;
  for (const DatasetInput& input : inputs) {
    if (!input.indexes.empty() && !is_in_shape(inputs, input.indexes)) dims.push_back(input.indexes);
  }
  return dims;
}

void add_small_sizes(DimSizes& sizes, const std::vector<DatasetInput>& inputs, const Stack& stack) {
  const std::map<Dim, std::int64_t> multiples = required_multiples(stack);
  for (const Dim& dim : dims_of(inputs)) {
    const auto found = multiples.find(dim);
    const std::int64_t multiple = found == multiples.end() ? 1 : found->second;
    sizes.try_emplace(dim, std::lcm(is_in_shape(inputs, dim) ? kSmall : kSmallIndexed, multiple));
  }
}

std::map<Dim, std::int64_t> required_multiples(const Stack& stack) {
  std::map<Dim, std::set<Axis>> axes;
  std::set<Dim> zigzag;
  for (const Rule& rule : stack.rules) {
    axes[rule.dim].insert(rule.axis);
    if (rule.distribution == Distribution::zigzag) zigzag.insert(rule.dim);
  }
  // Each axis counts once, so a multiple is at most twice the number of ranks, which the mesh limits.
  std::map<Dim, std::int64_t> multiples;
  for (const auto& [dim, of_dim] : axes) {
    const std::int64_t ranks = stack.mesh.size(std::vector<Axis>(of_dim.begin(), of_dim.end()));
    multiples[dim] = zigzag.contains(dim) ? 2 * ranks : ranks;
  }
  return multiples;
}

}  // namespace strata::host
