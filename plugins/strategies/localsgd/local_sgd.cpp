#include "local_sgd.hpp"

#include "outer_step.hpp"
#include "quantized_exchange.hpp"

namespace localsgd {

using namespace strata;

std::vector<MeshAxis> LocalSgd::axes() const { return {{settings_.axis, settings_.size}}; }

std::vector<Rule> LocalSgd::rules() const { return {{"batch", settings_.axis, 20, Distribution::block, {}}}; }

std::vector<Axis> LocalSgd::unsynchronized_axes() const { return {settings_.axis}; }

Conversion LocalSgd::convert(const PlannedCollective& collective) const {
  return quantized_exchange(settings_, collective);
}

int LocalSgd::fragment(const ParameterDescription& parameter) const { return parameter.block % settings_.fragments; }

void LocalSgd::work_on_bucket(BucketContext& context) const { emit_outer_step(settings_, context); }

void LocalSgd::define(DefinedReplicas& replicas) const {
  define_outer_step(settings_, fragment(replicas.parameter), replicas);
}

}  // namespace localsgd
