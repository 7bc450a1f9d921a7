#include "compiler/parameters/gradient_buckets.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace strata::host {
namespace {

class WholeBuckets {
 public:
  WholeBuckets(ProgramBuilder& builder, const StoredParameters& parameters, const GradientAccumulators& accumulators,
               BucketMaker maker)
      : builder_(builder), parameters_(parameters), accumulators_(accumulators), maker_(maker) {}

  std::vector<GradientBucket> run() {
    for (const auto& [name, partial] : accumulators_) assign(name, partial);
    for (GradientBucket& each : buckets_) {
      maker_.lay_out(each.bucket);
      make_gradients(each);
    }
    return std::move(buckets_);
  }

 private:
  /// Parameters may share a bucket if they are of the same kind and partial over the same sets of axes.
  using Likeness = std::pair<std::size_t, std::vector<AxisSet>>;  // first bucket of the kind, partial sets

  [[nodiscard]] const BucketMember& member(const std::string& name) const {
    const auto& stored = builder_.program().parameters;
    const auto found =
        std::find_if(stored.begin(), stored.end(), [&](const StoredParameter& each) { return each.name == name; });
    const auto index = static_cast<std::size_t>(found - stored.begin());
    return *std::find_if(parameters_.members.begin(), parameters_.members.end(),
                         [&](const BucketMember& each) { return each.index == index; });
  }

  void assign(const std::string& name, const PartialAccumulators& accumulators) {
    const BucketMember& each = member(name);
    Bucket fresh = maker_.open(each);
    std::vector<AxisSet> partial_sets;
    for (const auto& [partial, buffer] : accumulators) partial_sets.push_back(partial);
    const auto first = std::find_if(buckets_.begin(), buckets_.end(), [&](const GradientBucket& known) {
      return BucketMaker::is_alike(known.bucket, fresh);
    });
    const Likeness likeness{static_cast<std::size_t>(first - buckets_.begin()), partial_sets};
    const auto open = last_.find(likeness);
    // A tied parameter has its own bucket, because its gradient is also summed over stages.
    if (open != last_.end() && fresh.stages.size() == 1 && maker_.add(buckets_[open->second].bucket, each)) return;
    last_[likeness] = buckets_.size();
    GradientBucket opened{std::move(fresh), {}};
    for (const AxisSet& partial : partial_sets) opened.gradients.emplace_back(partial, -1);
    buckets_.push_back(std::move(opened));
  }

  void make_gradients(GradientBucket& each) {
    const Bucket& bucket = each.bucket;
    for (auto& [partial, gradient] : each.gradients) {
      gradient = builder_.add_flat(bucket.name + ".gradient" + partial_suffix(partial), BufferKind::gradient,
                                   bucket.gradient_type, bucket.elements, true);
    }
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
      const PartialAccumulators& accumulators = accumulators_of(parameter.name);
      std::size_t at = 0;
      for (const auto& [partial, buffer] : accumulators) {
        builder_.make_view(buffer, each.gradients[at++].second, bucket.offsets[i]);
      }
      parameter.gradient = accumulators.begin()->second;
    }
  }

  [[nodiscard]] const PartialAccumulators& accumulators_of(const std::string& name) const {
    return std::find_if(accumulators_.begin(), accumulators_.end(),
                        [&](const auto& each) { return each.first == name; })
        ->second;
  }

  ProgramBuilder& builder_;
  const StoredParameters& parameters_;
  const GradientAccumulators& accumulators_;
  BucketMaker maker_;
  std::vector<GradientBucket> buckets_;
  std::map<Likeness, std::size_t> last_;
};

}  // namespace

std::vector<GradientBucket> make_gradient_buckets(ProgramBuilder& builder, const StoredParameters& parameters,
                                                  const PartitionResult& partitioned, std::int64_t bytes) {
  std::vector<GradientBucket> buckets;
  for (std::size_t i = 0; i < parameters.dealt.size(); ++i) {
    if (!partitioned.dealt[i].empty()) buckets.push_back({parameters.dealt[i], partitioned.dealt[i]});
  }
  WholeBuckets whole(builder, parameters, partitioned.gradients,
                     BucketMaker(builder, bytes, static_cast<int>(parameters.dealt.size())));
  for (GradientBucket& each : whole.run()) buckets.push_back(std::move(each));
  return buckets;
}

}  // namespace strata::host
