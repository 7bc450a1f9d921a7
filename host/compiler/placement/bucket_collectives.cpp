#include "compiler/placement/bucket_collectives.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

Instruction collective(ProgramBuilder& builder, CollectiveKind kind, BufferKind content, BufferId input,
                       BufferId output, const std::vector<Axis>& axes, const std::string& label) {
  return builder.collective({.kind = kind, .axes = axes, .content = content}, input, output,
                            label + " " + std::string(to_string(kind)) + " " + join(axes, "+"));
}

}  // namespace

std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes) {
  std::vector<Axis> ordered;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axes.contains(axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

BufferId gather_pieces(ProgramBuilder& builder, BufferId piece, const std::vector<Axis>& axes, std::int64_t elements,
                       const std::string& label, std::vector<Instruction>& instructions) {
  const Buffer& of = builder.buffer(piece);
  const BufferId whole = builder.add_flat(label + " gathered", of.kind, of.dtype, elements);
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
    const Buffer of = builder.buffer(flat);
    const int ranks = builder.mesh().size(axis);
    Instruction instruction;
    instruction.name = label + " piece over " + axis;
    instruction.work = Copy{.size = of.elements(), .axis = {axis, Distribution::block}};
    instruction.inputs = {flat};
    flat = builder.add_flat(instruction.name, of.kind, of.dtype, of.elements() / ranks);
    instruction.outputs = {flat};
    instructions.push_back(std::move(instruction));
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
    const Buffer of = builder.buffer(flat);
    const int ranks = builder.mesh().size(together);
    const BufferId piece = builder.add_flat(label + " piece", of.kind, of.dtype, of.elements() / ranks);
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
