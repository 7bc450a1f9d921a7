#include "compiler/placement/stored_parameters.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/program/accumulation_type.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {
namespace {

void store(const Graph& graph, const LayoutRules& rules, const Parameter& parameter, StoredParameters& stored,
           ProgramBuilder& builder) {
  const TensorType& type = graph.type(parameter.value);
  const Layout layout = rules.canonical(type.dims);
  StoredParameter made;
  made.name = parameter.name;
  made.initialization = parameter.initialization;
  made.decay = parameter.decay;
  made.gradient_is_zero = parameter.gradient_is_zero;
  made.role = parameter.role;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    made.dims.push_back(sharded_dim(rules, type.dims[i], graph.sizes.at(type.dims[i]), layout[i]));
  }
  made.value = builder.add_buffer(parameter.name, BufferKind::parameter, type.dtype, type.dims,
                                  rules.local_shape(type.dims, layout), true);
  stored.homes.push_back({&parameter, made.value, layout});
  builder.program().parameters.push_back(std::move(made));
}

/// Appends `member` to the last bucket of its kind, or opens a new one.
void deal(const BucketMember& member, BucketMaker& maker, std::vector<Bucket>& buckets, std::vector<int>& block_of) {
  Bucket fresh = maker.open(member);
  if (!fresh.reduces_each_micro_batch() || member.block < 0) return;
  // Without a gradient there is nothing to reduce, and no update that weight decay could join.
  if (!fresh.has_gradient && !fresh.gathers_values()) return;
  for (std::size_t i = buckets.size(); i-- > 0;) {
    Bucket& known = buckets[i];
    const bool near = !known.gathers_values() || block_of[i] == member.block;
    // A tied parameter has its own bucket: its layout must be equal on all its stages, whose other parameters differ.
    if (!BucketMaker::is_alike(known, fresh) || !near || known.stages.size() > 1) continue;
    if (maker.add(known, member)) return;
    break;
  }
  buckets.push_back(std::move(fresh));
  block_of.push_back(member.block);
}

std::vector<Bucket> make_dealt(const std::vector<BucketMember>& members, BucketMaker maker) {
  std::vector<Bucket> buckets;
  std::vector<int> block_of;  // by bucket
  for (const BucketMember& member : members) deal(member, maker, buckets, block_of);
  for (Bucket& bucket : buckets) maker.lay_out(bucket);
  return buckets;
}

std::set<std::string> names_with_gradient(const Graph& graph) {
  std::set<std::string> names;
  for (const Sink& sink : graph.sinks) {
    if (sink.kind == Sink::Kind::parameter_gradient) names.insert(sink.name);
  }
  return names;
}

/// The parameters of `bucket` that the program has, at their places. `parameters`: those of the training step.
Bucket shared_bucket(const Bucket& bucket, const std::vector<StoredParameter>& parameters,
                     const std::map<std::string, std::size_t>& index_of) {
  Bucket shared = bucket;
  shared.parameters.clear();
  shared.offsets.clear();
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const auto known = index_of.find(parameters[bucket.parameters[i]].name);
    if (known == index_of.end()) continue;
    shared.parameters.push_back(known->second);
    shared.offsets.push_back(bucket.offsets[i]);
  }
  return shared;
}

}  // namespace

StoredParameters store_parameters(const StorageRequest& request, ProgramBuilder& builder) {
  const Graph& graph = request.graph;
  const auto readers = request.stages.readers(graph);
  std::map<Value, int> first_block;
  for (const Node& node : graph.nodes()) {
    for (const Value& operand : node.operands) first_block.try_emplace(operand, node.block);
  }
  const std::set<std::string> with_gradient = names_with_gradient(graph);
  StoredParameters stored;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const auto stages = readers.find(parameter.value);
    const std::set<int> here = stages == readers.end() ? std::set<int>{0} : stages->second;
    if (!here.contains(request.stage)) continue;
    BucketMember member{.index = builder.program().parameters.size(),
                        .storage = request.storage[i],
                        .gradient_type = gradient_type(parameter, graph.type(parameter.value).dtype),
                        .stages = {here.begin(), here.end()},
                        .block = stages == readers.end() ? -1 : first_block.at(parameter.value),
                        .has_gradient = with_gradient.contains(parameter.name)};
    member.fragments = request.fragments[i];
    member.has_own_bucket = request.own_buckets[i];
    if (!request.groups.updates.empty()) {
      member.group = request.groups.updates[i].group;
      member.has_own_bucket |= request.groups.updates[i].has_own_bucket;
    }
    stored.members.push_back(std::move(member));
    store(graph, request.rules, parameter, stored, builder);
  }
  stored.dealt = make_dealt(stored.members, BucketMaker(builder, request.bucket_bytes));
  return stored;
}

StoredParameters store_parameters_beside(const SharedStorageRequest& request, ProgramBuilder& builder) {
  std::set<std::string> here;
  for (const StoredParameter& parameter : request.parameters) here.insert(parameter.name);
  StoredParameters stored;
  std::map<std::string, std::size_t> index_of;
  for (const Parameter& parameter : request.graph.parameters) {
    if (!here.contains(parameter.name)) continue;
    index_of.emplace(parameter.name, builder.program().parameters.size());
    store(request.graph, request.rules, parameter, stored, builder);
  }
  BucketMaker maker(builder, 0);
  std::set<std::string> averaged;
  const auto share = [&](const Bucket& bucket, std::vector<Bucket>& buckets) {
    Bucket shared = shared_bucket(bucket, request.parameters, index_of);
    if (shared.parameters.empty()) return;
    maker.make_value_views(shared);
    buckets.push_back(std::move(shared));
  };
  for (const Bucket& bucket : request.averaged) {
    averaged.insert(bucket.name);
    share(bucket, stored.averaged);
  }
  stored.dealt = stored.averaged;
  for (const Bucket& bucket : request.dealt) {
    if (!averaged.contains(bucket.name)) share(bucket, stored.dealt);
  }
  return stored;
}

}  // namespace strata::host
