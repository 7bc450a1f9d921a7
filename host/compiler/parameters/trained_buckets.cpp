#include "compiler/parameters/trained_buckets.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

/// Assigns parameters that have whole gradients to buckets.
class WholeBuckets {
 public:
  WholeBuckets(ProgramBuilder& builder, const StoredParameters& parameters, const GradientAccumulators& accumulators,
               BucketMaker maker)
      : builder_(builder), parameters_(parameters), accumulators_(accumulators), maker_(maker) {}

  /// Appends the buckets to `buckets`.
  void run(std::vector<TrainedBucket>& buckets) {
    for (const auto& [name, partial] : accumulators_) assign(name, partial);
    for (TrainedBucket& each : buckets_) {
      maker_.lay_out(each.bucket);
      make_gradients(each);
      buckets.push_back(std::move(each));
    }
  }

 private:
  /// Parameters may share a bucket if they are of the same kind and partial over the same sets of axes.
  using Likeness = std::pair<std::size_t, std::vector<AxisSet>>;  // first bucket of the kind, partial sets

  [[nodiscard]] const BucketMember& member(const std::string& name) const {
    return *std::find_if(parameters_.members.begin(), parameters_.members.end(), [&](const BucketMember& each) {
      return builder_.program().parameters[each.index].name == name;
    });
  }

  void assign(const std::string& name, const PartialAccumulators& accumulators) {
    const BucketMember& each = member(name);
    TrainedBucket fresh{maker_.open(each), {}};
    std::vector<AxisSet> partial_sets;
    for (const auto& [partial, buffer] : accumulators) {
      partial_sets.push_back(partial);
      fresh.gradients.emplace_back(partial, -1);
    }
    const auto first = std::find_if(buckets_.begin(), buckets_.end(), [&](const TrainedBucket& known) {
      return known.bucket.kind() == fresh.bucket.kind();
    });
    const Likeness likeness{static_cast<std::size_t>(first - buckets_.begin()), std::move(partial_sets)};
    const auto open = last_.find(likeness);
    // A tied parameter has its own bucket, because its gradient is also summed over stages.
    const bool may_join = open != last_.end() && fresh.bucket.stages.size() == 1;
    if (may_join && maker_.add(buckets_[open->second].bucket, each)) return;
    last_[likeness] = buckets_.size();
    buckets_.push_back(std::move(fresh));
  }

  void make_gradients(TrainedBucket& each) {
    const Bucket& bucket = each.bucket;
    for (auto& [partial, gradient] : each.gradients) {
      gradient = builder_.add_flat(bucket.name + ".gradient" + partial_suffix(partial), BufferKind::gradient,
                                   bucket.gradient_type, bucket.elements, true);
    }
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
      const PartialAccumulators& accumulators =
          std::find_if(accumulators_.begin(), accumulators_.end(), [&](const auto& known) {
            return known.first == parameter.name;
          })->second;
      std::size_t at = 0;
      for (const auto& [partial, buffer] : accumulators) {
        builder_.make_view(buffer, each.gradients[at++].second, bucket.offsets[i]);
      }
      parameter.gradient = accumulators.begin()->second;
    }
  }

  ProgramBuilder& builder_;
  const StoredParameters& parameters_;
  const GradientAccumulators& accumulators_;
  BucketMaker maker_;
  std::vector<TrainedBucket> buckets_;
  std::map<Likeness, std::size_t> last_;
};

/// Adds the optimizer states of a bucket, in the order of AssignedUpdate::states, but for those of whole parameters. If
/// the values have a shorter type than f32, a "master" copy in f32 comes first. \return this rank's pieces, and whole
/// the states with their own dims.
std::vector<BufferId> add_states(const PlacedModel& model, ProgramBuilder& builder, const Bucket& bucket) {
  if (model.request.optimizer.is_update_outside) return {};
  // The parameters of a bucket have the same optimizer, hence the same states.
  const StoredParameter& first = builder.program().parameters[bucket.parameters.front()];
  std::vector<BufferId> buffers;
  if (bucket.has_master()) buffers.push_back(add_optimizer_state(builder, bucket, kMasterState));
  for (const OptimizerState& state : model.groups.of(first.name).states) {
    if (state.is_of_whole) continue;
    if (!state.dims) {
      buffers.push_back(add_optimizer_state(builder, bucket, state.name));
      continue;
    }
    buffers.push_back(add_whole_state(builder, bucket, state.name, dims_of(first, *state.dims, {})));
  }
  return buffers;
}

/// The writer is the rank at coordinate 0 of the axis. It receives and sums the gradients of all ranks along the axis.
/// The other ranks, which share one program, send theirs.
void send_to_writer(ProgramBuilder& builder, const Bucket& bucket, BufferId gradient, bool is_writer,
                    const std::string& label, std::vector<Instruction>& instructions) {
  const Axis& axis = bucket.storage.axes.front();
  const std::string name = label + " to the writer";
  const std::uint64_t id = builder.communication_id(name);
  if (!is_writer) {
    instructions.push_back({.name = name, .work = Send{{axis, 0}, id}, .inputs = {gradient}});
    return;
  }
  for (int from = 1; from < builder.mesh().size(axis); ++from) {
    const BufferId received =
        builder.add_flat(label + " received", BufferKind::communication, bucket.gradient_type, bucket.elements);
    instructions.push_back({.name = name, .work = Receive{{axis, from}, id}, .outputs = {received}});
    instructions.push_back(flat_op(ops::kAccumulate, label, {received}, {gradient}));
  }
}

/// `lasting`: a task other than the completing one reads the gradients.
Completion plan_completion(ProgramBuilder& builder, const TrainedBucket& trained, bool updates, bool lasting) {
  const Bucket& bucket = trained.bucket;
  Completion completion;
  for (const auto& [partial, gradient] : trained.gradients) {
    const std::string label = builder.buffer(gradient).name;
    AxisSet remaining = partial;
    BufferId complete = gradient;
    if (bucket.storage.single_writer) {
      if (remaining.erase(bucket.storage.axes.front()) > 0) {
        send_to_writer(builder, bucket, gradient, updates, label, completion.instructions);
      }
      if (!updates) continue;
    } else if (bucket.pieces > 1 && !bucket.reduces_each_micro_batch()) {
      complete = scatter_gradient(builder, bucket, gradient, remaining, label, completion.instructions);
      builder.buffer(complete).persistent = lasting;
    }
    reduce_gradient(builder, complete, remaining, label, completion.instructions);
    completion.completed.push_back(complete);
  }
  return completion;
}

}  // namespace

std::vector<TrainedBucket> train_buckets(const PlacedModel& model, const StoredParameters& parameters,
                                         const Accumulators& accumulators, const RankClass& rank_class,
                                         ProgramBuilder& builder) {
  const GradientBuckets& options = model.stack.buckets;
  std::vector<TrainedBucket> buckets;
  for (std::size_t i = 0; i < parameters.dealt.size(); ++i) {
    if (!accumulators.dealt[i].empty()) buckets.push_back({parameters.dealt[i], accumulators.dealt[i]});
  }
  BucketMaker maker(builder, options.bytes, static_cast<int>(parameters.dealt.size()));
  WholeBuckets(builder, parameters, accumulators.gradients, maker).run(buckets);
  for (TrainedBucket& each : buckets) {
    if (rank_class.updates) each.states = add_states(model, builder, each.bucket);
    for (const std::size_t index : each.bucket.parameters) {
      builder.program().parameters[index].unsynchronized = in_mesh_order(builder.mesh(), model.stack.unsynchronized);
    }
    if (rank_class.updates && model.keeps_average()) each.average = add_average(builder, each.bucket);
    each.completion = plan_completion(builder, each, rank_class.updates, options.overlap);
  }
  return buckets;
}

std::vector<ShardedDim> dims_of(const StoredParameter& parameter, const Dims& names, const Dims& sharded) {
  std::vector<ShardedDim> dims;
  for (const Dim& name : names) {
    const auto found = std::find_if(parameter.dims.begin(), parameter.dims.end(),
                                    [&](const ShardedDim& each) { return each.dim == name; });
    dims.push_back(*found);
    if (!contains(sharded, name)) dims.back().axes.clear();
  }
  return dims;
}

BufferId add_whole_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name,
                         std::vector<ShardedDim> dims) {
  StoredParameter& parameter = builder.program().parameters[bucket.parameters.front()];
  Dims names;
  Shape shape;
  for (const ShardedDim& dim : dims) {
    names.push_back(dim.dim);
    shape.push_back(dim.global_size);
  }
  const BufferId buffer = builder.add_buffer(parameter.name + "." + name, BufferKind::optimizer, full_type(bucket),
                                             names, std::move(shape), true);
  parameter.states[name] = buffer;
  parameter.state_dims[name] = std::move(dims);
  return buffer;
}

BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name) {
  const DType type = full_type(bucket);
  const BufferId flat =
      builder.add_flat(bucket.name + "." + name, BufferKind::optimizer, type, bucket.piece_elements(), true);
  put_buffer(builder, flat, bucket, bucket.storage.states_place);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    StoredParameter& parameter = builder.program().parameters[bucket.parameters[i]];
    if (bucket.stores_pieces()) {
      parameter.states[name] = flat;
      continue;
    }
    const Buffer value = builder.buffer(parameter.value);
    const BufferId view =
        builder.add_buffer(parameter.name + "." + name, BufferKind::optimizer, type, value.dims, value.shape, true);
    builder.make_view(view, flat, bucket.offsets[i]);
    put_buffer(builder, view, bucket, bucket.storage.states_place);
    parameter.states[name] = view;
  }
  return flat;
}

BufferId add_average(ProgramBuilder& builder, const Bucket& bucket) {
  for (const std::size_t index : bucket.parameters) {
    StoredParameter& parameter = builder.program().parameters[index];
    parameter.traits[kAverageState] = {.begins_as_value = true, .unsynchronized = parameter.unsynchronized};
  }
  return add_optimizer_state(builder, bucket, kAverageState);
}

BufferId StagedBuffers::add(ProgramBuilder& builder, BufferId buffer) {
  const Buffer home = builder.buffer(buffer);
  if (home.place == MemoryPlace::device) return buffer;
  const BufferId copy = builder.add_flat(home.name + " on the device", home.kind, home.dtype, home.elements());
  copies_.push_back({buffer, copy, home.name});
  return copy;
}

BufferId StagedBuffers::on_device(BufferId buffer) const {
  const auto found =
      std::find_if(copies_.begin(), copies_.end(), [buffer](const Copy& each) { return each.home == buffer; });
  return found == copies_.end() ? buffer : found->copy;
}

void StagedBuffers::fetch(const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const {
  std::vector<BufferId> waits = after;
  for (const Copy& each : copies_) {
    instructions.push_back(each.to_device());
    instructions.back().waits = std::exchange(waits, {});
  }
}

void StagedBuffers::store(std::vector<Instruction>& instructions) const {
  for (const Copy& each : copies_) instructions.push_back(each.from_device());
}

}  // namespace strata::host
