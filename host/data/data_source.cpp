#include "data/data_source.hpp"

#include <algorithm>
#include <utility>

#include "strata/random.hpp"

namespace strata::host {

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

}  // namespace strata::host
