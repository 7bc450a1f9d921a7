#include "zero.hpp"

#include <utility>

namespace zero {

using namespace strata;

Zero::Zero(Settings settings) : settings_(std::move(settings)) {}

std::vector<MeshAxis> Zero::sharding_axes() const {
  const int within = settings_.hierarchical_partition;
  if (within == 1) return {{settings_.axis, settings_.size}};
  return {{settings_.axis + "_nodes", settings_.size / within}, {settings_.axis, within}};
}

std::vector<MeshAxis> Zero::axes() const {
  std::vector<MeshAxis> axes = sharding_axes();
  if (settings_.replicate > 1) axes.insert(axes.begin(), {settings_.axis + "_replicate", settings_.replicate});
  return axes;
}

std::vector<Rule> Zero::rules() const {
  std::vector<Rule> rules;
  for (const MeshAxis& axis : axes()) rules.push_back({"batch", axis.name, 20, Distribution::block, {}});
  return rules;
}

std::optional<GradientBuckets> Zero::gradient_buckets() const {
  return GradientBuckets{static_cast<std::int64_t>(settings_.bucket_mb * 1024 * 1024), settings_.overlap};
}

std::optional<ParameterStorage> Zero::storage(const ParameterDescription& /*parameter*/) const {
  ParameterStorage storage;
  storage.sharding = static_cast<Sharding>(settings_.stage);
  storage.axes = storage_axes();
  if (settings_.hierarchical_partition > 1) storage.secondary_axes = {settings_.axis};
  storage.prefetch = settings_.prefetch;
  storage.reshard_after_forward = settings_.reshard_after_forward;
  storage.states_place = settings_.offload_optimizer;
  storage.values_place = settings_.offload_param;
  storage.directory = settings_.offload_directory;
  return storage;
}

std::vector<Axis> Zero::storage_axes() const {
  std::vector<Axis> axes;
  for (const MeshAxis& axis : sharding_axes()) axes.push_back(axis.name);
  axes.insert(axes.end(), settings_.also_over.begin(), settings_.also_over.end());
  return axes;
}

Conversion Zero::convert(const PlannedCollective& collective) const {
  QuantizedCommunication quantized(settings_.quantization, sharding_axes(), storage_axes());
  if (!quantized.claims(collective)) return {};
  return [quantized = std::move(quantized)](ConversionContext& context) { quantized.convert(context); };
}

}  // namespace zero
