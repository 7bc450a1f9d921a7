#include "compiler/placement/stored_parameters.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/program/program_builder.hpp"

namespace strata::host {
namespace {

void store(const PlacedModel& model, const Parameter& parameter, StoredParameters& stored, ProgramBuilder& builder) {
  const Graph& graph = model.graph;
  const LayoutRules& rules = model.rules;
  const TensorType& type = graph.type(parameter.value);
  const Layout layout = rules.canonical(type.dims, parameter.name);
  StoredParameter made;
  made.name = parameter.name;
  made.initialization = parameter.initialization;
  made.decay = parameter.decay;
  made.gradient_is_zero = parameter.gradient_is_zero;
  made.role = parameter.role;
  made.sign_step = parameter.sign_step;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    made.dims.push_back(sharded_dim(rules, type.dims[i], graph.sizes.at(type.dims[i]), layout[i]));
  }
  made.value = builder.add_buffer(parameter.name, BufferKind::parameter, type.dtype, type.dims,
                                  rules.local_shape(type.dims, layout), true);
  stored.homes.push_back({&parameter, made.value, layout});
  builder.program().parameters.push_back(std::move(made));
}

/// Appends `member` to the last bucket of its kind, or opens a new one.
void deal(const BucketMember& member, BucketMaker& maker, std::vector<Bucket>& buckets, std::vector<int>& blocks) {
  Bucket fresh = maker.open(member);
  if (!fresh.reduces_each_micro_batch() || member.block < 0) return;
  // Without a gradient there is nothing to reduce, and no update that weight decay could join.
  if (!fresh.has_gradient && !fresh.gathers_values()) return;
  for (std::size_t i = buckets.size(); i-- > 0;) {
    Bucket& known = buckets[i];
    const bool near = !known.gathers_values() || blocks[i] == member.block;
    // A tied parameter has its own bucket: its layout must be equal on all its stages, whose other parameters differ.
    if (known.kind() != fresh.kind() || !near || known.stages.size() > 1) continue;
    if (maker.add(known, member)) return;
    break;
  }
  buckets.push_back(std::move(fresh));
  blocks.push_back(member.block);
}

std::vector<Bucket> make_dealt(const std::vector<BucketMember>& members, BucketMaker maker) {
  std::vector<Bucket> buckets;
  std::vector<int> blocks;  // of the buckets
  for (const BucketMember& member : members) deal(member, maker, buckets, blocks);
  for (Bucket& bucket : buckets) maker.lay_out(bucket);
  return buckets;
}

/// The parameters of `bucket` that the program has, at their places. `parameters`: those of the training step.
Bucket shared_bucket(const Bucket& bucket, const std::vector<StoredParameter>& parameters,
                     const std::map<std::string, std::size_t>& indices) {
  Bucket shared = bucket;
  shared.parameters.clear();
  shared.offsets.clear();
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const auto known = indices.find(parameters[bucket.parameters[i]].name);
    if (known == indices.end()) continue;
    shared.parameters.push_back(known->second);
    shared.offsets.push_back(bucket.offsets[i]);
  }
  return shared;
}

}  // namespace

BucketKind bucket_kind(const PlacedModel& model, std::size_t index) {
  const Parameter& parameter = model.graph.parameters[index];
  const TensorType& type = model.graph.type(parameter.value);
  const PlacedParameter& placed = model.parameters[index];
  const AssignedUpdate update = model.is_training() ? model.groups.updates[index] : AssignedUpdate{};
  const std::set<int> stages = model.homes(parameter);
  return {.storage = placed.storage,
          .shard_axes = axes_of(model.rules.canonical(type.dims, parameter.name)),
          .stages = {stages.begin(), stages.end()},
          .role = parameter.role,
          .sign_step = parameter.sign_step,
          .group = update.group,
          .has_own_bucket = placed.has_own_bucket || update.has_own_bucket,
          .fragments = placed.fragments,
          .has_gradient = model.index.with_gradient.contains(parameter.name),
          .type = type.dtype,
          .gradient_type = gradient_type(parameter, type.dtype)};
}

StoredParameters store_parameters(const PlacedModel& model, int stage, ProgramBuilder& builder) {
  const Graph& graph = model.graph;
  StoredParameters stored;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const std::vector<GraphIndex::Use>& uses = model.index.uses_of(parameter.value);
    const std::set<int> stages = model.homes(parameter);
    if (!stages.contains(stage)) continue;
    store(model, parameter, stored, builder);
    stored.members.push_back({.index = builder.program().parameters.size() - 1,
                              .block = uses.empty() ? -1 : uses.front().node->block,
                              .kind = bucket_kind(model, i)});
  }
  stored.dealt = make_dealt(stored.members, BucketMaker(builder, model.stack.buckets.bytes));
  return stored;
}

StoredParameters store_parameters_beside(const PlacedModel& model, const TrainingParameters& training,
                                         ProgramBuilder& builder) {
  std::set<std::string> here;
  for (const StoredParameter& parameter : training.parameters) here.insert(parameter.name);
  StoredParameters stored;
  std::map<std::string, std::size_t> indices;
  for (const Parameter& parameter : model.graph.parameters) {
    if (!here.contains(parameter.name)) continue;
    indices.emplace(parameter.name, builder.program().parameters.size());
    store(model, parameter, stored, builder);
  }
  BucketMaker maker(builder, 0);
  std::set<std::string> averaged;
  const auto share = [&](const Bucket& bucket, std::vector<Bucket>& buckets) {
    Bucket shared = shared_bucket(bucket, training.parameters, indices);
    if (shared.parameters.empty()) return;
    maker.make_value_views(shared);
    buckets.push_back(std::move(shared));
  };
  for (const Bucket& bucket : training.averaged) {
    averaged.insert(bucket.name);
    share(bucket, stored.averaged);
  }
  stored.dealt = stored.averaged;
  for (const Bucket& bucket : training.dealt) {
    if (!averaged.contains(bucket.name)) share(bucket, stored.dealt);
  }
  return stored;
}

}  // namespace strata::host
