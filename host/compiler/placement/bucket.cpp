#include "compiler/placement/bucket.hpp"

#include <algorithm>

namespace strata::host {
namespace {

Instruction collective(ProgramBuilder& builder, CollectiveKind kind, BufferKind content, BufferId input,
                       BufferId output, const std::vector<Axis>& axes, const std::string& label) {
  return builder.collective({.kind = kind, .axes = axes, .content = content}, input, output,
                            label + " " + std::string(to_string(kind)) + " " + join(axes, "+"));
}

}  // namespace

std::int64_t BucketMaker::size_of_member(const BucketMember& member) const {
  const StoredParameter& parameter = builder_.program().parameters[member.index];
  return builder_.buffer(parameter.value).elements();
}

Bucket BucketMaker::open(const BucketMember& member) const {
  Bucket bucket;
  static_cast<BucketKind&>(bucket) = member.kind;
  bucket.parameters = {member.index};
  bucket.elements = size_of_member(member);
  bucket.pieces = bucket.storage.single_writer ? 1 : builder_.mesh().size(bucket.storage.axes);
  return bucket;
}

bool BucketMaker::add(Bucket& bucket, const BucketMember& member) const {
  if (bucket.has_own_bucket) return false;
  const std::int64_t elements = bucket.elements + size_of_member(member);
  if (elements * static_cast<std::int64_t>(size_of(bucket.gradient_type)) > bytes_) return false;
  bucket.parameters.push_back(member.index);
  bucket.elements = elements;
  return true;
}

void BucketMaker::lay_out(Bucket& bucket) {
  auto& parameters = builder_.program().parameters;
  bucket.name = "bucket " + std::to_string(count_++);
  std::stable_partition(bucket.parameters.begin(), bucket.parameters.end(),
                        [&](std::size_t i) { return parameters[i].decay; });
  std::int64_t offset = 0;
  for (const std::size_t index : bucket.parameters) {
    bucket.offsets.push_back(offset);
    offset += builder_.buffer(parameters[index].value).elements();
    if (parameters[index].decay) bucket.decay_elements = offset;
  }
  bucket.elements = (offset + bucket.pieces - 1) / bucket.pieces * bucket.pieces;
  make_value_views(bucket);
}

void BucketMaker::make_value_views(Bucket& bucket) {
  const bool dealt = bucket.gathers_values();
  const bool updates_piece = dealt || bucket.gathers_for_step();
  bucket.values = builder_.add_flat(bucket.name + (updates_piece ? " piece" : ""), BufferKind::parameter, bucket.type,
                                    updates_piece ? bucket.piece_elements() : bucket.elements, true);
  put_buffer(builder_, bucket.values, bucket, bucket.storage.values_place);
  if (bucket.gathers_for_step()) {
    bucket.gathered = builder_.add_flat(bucket.name, BufferKind::parameter, bucket.type, bucket.elements, true);
  }
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
    if (bucket.stores_pieces()) {
      parameter.sharding = FlatSharding{bucket.storage.axes, bucket.elements, bucket.offsets[i], updates_piece};
    }
    if (dealt) {
      // The parameter's buffer describes the gathered values and has no memory of its own.
      builder_.buffer(parameter.value).persistent = false;
    } else {
      builder_.make_view(parameter.value, bucket.gathered >= 0 ? bucket.gathered : bucket.values, bucket.offsets[i]);
    }
    if (updates_piece) parameter.value = bucket.values;
  }
}

AxisSet Bucket::piece_axes() const {
  AxisSet axes = shard_axes;
  if (pieces > 1) axes.insert(storage.axes.begin(), storage.axes.end());
  return axes;
}

DType full_type(const Bucket& bucket) { return bucket.type == DType::f64 ? DType::f64 : DType::f32; }

std::vector<ShardedDim> piece_iteration(const Program& program, const Bucket& bucket) {
  std::vector<ShardedDim> iteration{{"flat", bucket.elements, {}, false}};
  if (bucket.pieces > 1) {
    for (const Axis& axis : bucket.storage.axes) iteration.front().axes.push_back({axis, Distribution::block});
  }
  if (bucket.has_own_bucket) {
    const std::vector<ShardedDim>& dims = program.parameters[bucket.parameters.front()].dims;
    iteration.insert(iteration.end(), dims.begin(), dims.end());
  }
  return iteration;
}

void put_buffer(ProgramBuilder& builder, BufferId buffer, const Bucket& bucket, MemoryPlace place) {
  builder.buffer(buffer).place = place;
  if (place == MemoryPlace::file) builder.program().offload_directory = bucket.storage.directory;
}

AxisSet axes_of(const Layout& layout) {
  AxisSet axes;
  for (const std::vector<Axis>& of_dim : layout) axes.insert(of_dim.begin(), of_dim.end());
  return axes;
}

std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes) {
  std::vector<Axis> ordered;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axes.contains(axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

BufferId gather_pieces(ProgramBuilder& builder, BufferId piece, const std::vector<Axis>& axes, std::int64_t elements,
                       const std::string& label, std::vector<Instruction>& instructions) {
  const Buffer& source = builder.buffer(piece);
  const BufferId whole = builder.add_flat(label + " gathered", source.kind, source.dtype, elements);
  gather_into(builder, piece, whole, axes, label, instructions);
  return whole;
}

void gather_into(ProgramBuilder& builder, BufferId piece, BufferId whole, const std::vector<Axis>& axes,
                 const std::string& label, std::vector<Instruction>& instructions) {
  instructions.push_back(
      collective(builder, CollectiveKind::all_gather, BufferKind::parameter, piece, whole, axes, label));
}

BufferId slice_piece(ProgramBuilder& builder, BufferId flat, const std::vector<Axis>& axes, const std::string& label,
                     std::vector<Instruction>& instructions) {
  for (const Axis& axis : axes) {
    const Buffer whole = builder.buffer(flat);
    const int ranks = builder.mesh().size(axis);
    const std::string name = label + " piece over " + axis;
    const BufferId piece = builder.add_flat(name, whole.kind, whole.dtype, whole.elements() / ranks);
    instructions.push_back({.name = name,
                            .work = Copy{.size = whole.elements(), .axis = {axis, Distribution::block}},
                            .inputs = {flat},
                            .outputs = {piece}});
    flat = piece;
  }
  return flat;
}

BufferId scatter_gradient(ProgramBuilder& builder, const Bucket& bucket, BufferId flat, AxisSet& partial,
                          const std::string& label, std::vector<Instruction>& instructions) {
  const std::vector<Axis>& axes = bucket.storage.axes;
  for (std::size_t i = 0; i < axes.size();) {
    if (!partial.contains(axes[i])) {
      flat = slice_piece(builder, flat, {axes[i++]}, label, instructions);
      continue;
    }
    std::vector<Axis> together;
    for (; i < axes.size() && partial.contains(axes[i]); ++i) together.push_back(axes[i]);
    const Buffer whole = builder.buffer(flat);
    const int ranks = builder.mesh().size(together);
    const BufferId piece = builder.add_flat(label + " piece", whole.kind, whole.dtype, whole.elements() / ranks);
    instructions.push_back(
        collective(builder, CollectiveKind::reduce_scatter, BufferKind::gradient, flat, piece, together, label));
    for (const Axis& axis : together) partial.erase(axis);
    flat = piece;
  }
  return flat;
}

void reduce_gradient(ProgramBuilder& builder, BufferId gradient, const AxisSet& partial, const std::string& label,
                     std::vector<Instruction>& instructions) {
  if (partial.empty()) return;
  const std::vector<Axis> axes = in_mesh_order(builder.mesh(), partial);
  instructions.push_back(builder.all_reduce(gradient, axes, BufferKind::gradient, label));
}

}  // namespace strata::host
