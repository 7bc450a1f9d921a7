#include "compiler/buckets.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace strata::host {
namespace {

/// What parameters of one bucket have in common.
using Likeness = std::tuple<DType, AxisSet, std::vector<AxisSet>>;

AxisSet shard_axes(const StoredParameter& parameter) {
  AxisSet axes;
  for (const ShardedDim& dim : parameter.dims) {
    for (const AxisShard& shard : dim.axes) axes.insert(shard.axis);
  }
  return axes;
}

class BucketMaker {
 public:
  BucketMaker(ProgramBuilder& builder, const PartitionResult& partitioned, const GradientBuckets& options)
      : builder_(builder), partitioned_(partitioned), options_(options) {}

  std::vector<Bucket> run(const std::vector<std::string>& states) {
    for (const auto& [name, accumulators] : partitioned_.gradients) place(name, accumulators);
    for (std::size_t i = 0; i < buckets_.size(); ++i) lay_out(buckets_[i], "bucket " + std::to_string(i), states);
    return std::move(buckets_);
  }

 private:
  [[nodiscard]] std::size_t index_of(const std::string& name) const {
    const auto& parameters = builder_.program().parameters;
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [&](const auto& each) { return each.name == name; });
    return static_cast<std::size_t>(found - parameters.begin());
  }

  /// Adds a parameter to the open bucket of its kind, or opens one.
  void place(const std::string& name, const PartialAccumulators& accumulators) {
    const std::size_t index = index_of(name);
    const StoredParameter& parameter = builder_.program().parameters[index];
    const Buffer& value = builder_.buffer(parameter.value);
    std::vector<AxisSet> partial_sets;
    for (const auto& [partial, buffer] : accumulators) partial_sets.push_back(partial);
    const Likeness likeness{value.dtype, shard_axes(parameter), partial_sets};
    const auto open = open_.find(likeness);
    const std::int64_t size = static_cast<std::int64_t>(size_of(accumulation_type(value.dtype)));
    const bool fits =
        open != open_.end() && (buckets_[open->second].elements + value.elements()) * size <= options_.bytes;
    if (!fits) {
      open_[likeness] = buckets_.size();
      buckets_.emplace_back();
      buckets_.back().shard_axes = std::get<1>(likeness);
      for (const AxisSet& partial : partial_sets) buckets_.back().gradients.emplace_back(partial, -1);
    }
    Bucket& bucket = buckets_[open_[likeness]];
    bucket.parameters.push_back(index);
    bucket.elements += value.elements();
  }

  void lay_out(Bucket& bucket, const std::string& name, const std::vector<std::string>& states) {
    auto& parameters = builder_.program().parameters;
    std::stable_partition(bucket.parameters.begin(), bucket.parameters.end(),
                          [&](std::size_t i) { return parameters[i].decay; });
    const DType type = builder_.buffer(parameters[bucket.parameters.front()].value).dtype;
    const DType accumulation = accumulation_type(type);
    bucket.values = builder_.add_flat(name, BufferKind::parameter, type, bucket.elements, true);
    for (auto& [partial, gradient] : bucket.gradients) {
      const std::string suffix = partial.empty() ? "" : " partial " + join({partial.begin(), partial.end()}, "+");
      gradient =
          builder_.add_flat(name + ".gradient" + suffix, BufferKind::gradient, accumulation, bucket.elements, true);
    }
    for (const std::string& state : states) {
      bucket.states.push_back(
          builder_.add_flat(name + "." + state, BufferKind::optimizer, accumulation, bucket.elements, true));
    }
    std::int64_t offset = 0;
    for (const std::size_t index : bucket.parameters) {
      make_views(bucket, parameters[index], offset, states);
      offset += builder_.buffer(parameters[index].value).elements();
      if (parameters[index].decay) bucket.decay_elements = offset;
    }
  }

  /// Turns the parameter's buffers into views at `offset` of the bucket's.
  void make_views(const Bucket& bucket, StoredParameter& parameter, std::int64_t offset,
                  const std::vector<std::string>& states) {
    const auto view = [&](BufferId buffer, BufferId base) {
      builder_.buffer(buffer).base = base;
      builder_.buffer(buffer).offset = offset;
    };
    view(parameter.value, bucket.values);
    const auto accumulators = std::find_if(partitioned_.gradients.begin(), partitioned_.gradients.end(),
                                           [&](const auto& each) { return each.first == parameter.name; });
    std::size_t at = 0;
    for (const auto& [partial, buffer] : accumulators->second) view(buffer, bucket.gradients[at++].second);
    parameter.gradient = accumulators->second.begin()->second;
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Buffer value = builder_.buffer(parameter.value);
      const BufferId state =
          builder_.add_buffer(parameter.name + "." + states[i], BufferKind::optimizer,
                              builder_.buffer(bucket.states[i]).dtype, value.dims, value.shape, true);
      view(state, bucket.states[i]);
      parameter.states[states[i]] = state;
    }
  }

  ProgramBuilder& builder_;
  const PartitionResult& partitioned_;
  const GradientBuckets& options_;
  std::map<Likeness, std::size_t> open_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<Bucket> make_buckets(ProgramBuilder& builder, const PartitionResult& partitioned,
                                 const GradientBuckets& options, const std::vector<std::string>& states) {
  return BucketMaker(builder, partitioned, options).run(states);
}

}  // namespace strata::host
