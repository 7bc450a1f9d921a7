#include "compiler/parameters/bucket_collectives.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

Instruction collective(ProgramBuilder& builder, CollectiveKind kind, BufferId input, BufferId output,
                       const std::vector<Axis>& axes, const std::string& label) {
  Instruction instruction;
  instruction.kind = InstructionKind::collective;
  instruction.collective = kind;
  instruction.name = label + " " + std::string(to_string(kind)) + " " + join(axes, "+");
  instruction.inputs = {input};
  instruction.outputs = {output};
  instruction.axes = axes;
  instruction.id = builder.communication_id(instruction.name);
  return instruction;
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
  builder.emit_collective(collective(builder, CollectiveKind::all_gather, piece, whole, axes, label),
                          BufferKind::parameter, instructions);
}

BufferId slice_piece(ProgramBuilder& builder, BufferId flat, const std::vector<Axis>& axes, const std::string& label,
                     std::vector<Instruction>& instructions) {
  for (const Axis& axis : axes) {
    const Buffer of = builder.buffer(flat);
    const int ranks = builder.program().mesh.size(axis);
    Instruction instruction;
    instruction.kind = InstructionKind::copy;
    instruction.name = label + " piece over " + axis;
    instruction.inputs = {flat};
    instruction.copy.size = of.elements();
    instruction.copy.axis = {axis, Distribution::block};
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
    const int ranks = builder.program().mesh.size(together);
    const BufferId piece = builder.add_flat(label + " piece", of.kind, of.dtype, of.elements() / ranks);
    builder.emit_collective(collective(builder, CollectiveKind::reduce_scatter, flat, piece, together, label),
                            BufferKind::gradient, instructions);
    for (const Axis& axis : together) partial.erase(axis);
    flat = piece;
  }
  return flat;
}

void reduce_gradient(ProgramBuilder& builder, BufferId gradient, const AxisSet& partial, const std::string& label,
                     std::vector<Instruction>& instructions) {
  if (partial.empty()) return;
  const std::vector<Axis> axes = in_mesh_order(builder.program().mesh, partial);
  builder.emit_collective(builder.all_reduce(gradient, axes, Reduction::sum, label), BufferKind::gradient,
                          instructions);
}

}  // namespace strata::host
