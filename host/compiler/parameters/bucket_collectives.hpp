#pragma once

#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Axes of the set in mesh order.
[[nodiscard]] std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes);

/// Puts together what `axes` deal of a bucket: an all_gather of `piece` into a new flat buffer of `elements`.
BufferId gather_pieces(ProgramBuilder& builder, BufferId piece, const std::vector<Axis>& axes, std::int64_t elements,
                       const std::string& label, std::vector<Instruction>& instructions);

/// The same into a buffer that is there.
void gather_into(ProgramBuilder& builder, BufferId piece, BufferId whole, const std::vector<Axis>& axes,
                 const std::string& label, std::vector<Instruction>& instructions);

/// Keeps this rank's piece of a flat buffer that every rank has alike.
BufferId slice_piece(ProgramBuilder& builder, BufferId flat, const std::vector<Axis>& axes, const std::string& label,
                     std::vector<Instruction>& instructions);

/// Brings a whole flat gradient, partial over `partial`, to this rank's piece of the bucket: reduce_scatter over
/// storage axes over which it is partial, slice over the others. `partial` loses the axes that are done.
BufferId scatter_gradient(ProgramBuilder& builder, const Bucket& bucket, BufferId flat, AxisSet& partial,
                          const std::string& label, std::vector<Instruction>& instructions);

/// Completes a flat gradient in place over axes over which it is partial.
void reduce_gradient(ProgramBuilder& builder, BufferId gradient, const AxisSet& partial, const std::string& label,
                     std::vector<Instruction>& instructions);

}  // namespace strata::host
