#pragma once

#include <string>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The axes of a set in mesh order.
[[nodiscard]] std::vector<Axis> in_mesh_order(const Mesh& mesh, const AxisSet& axes);

/// Appends an all_gather of `piece` over `axes` into a new flat buffer of `elements`. \return the buffer.
BufferId gather_pieces(ProgramBuilder& builder, BufferId piece, const std::vector<Axis>& axes, std::int64_t elements,
                       const std::string& label, std::vector<Instruction>& instructions);

/// Appends an all_gather of `piece` over `axes` into `whole`.
void gather_into(ProgramBuilder& builder, BufferId piece, BufferId whole, const std::vector<Axis>& axes,
                 const std::string& label, std::vector<Instruction>& instructions);

/// Slices this rank's piece over `axes` from a flat buffer that is equal on all ranks. \return the piece.
BufferId slice_piece(ProgramBuilder& builder, BufferId flat, const std::vector<Axis>& axes, const std::string& label,
                     std::vector<Instruction>& instructions);

/// Reduces a whole flat gradient that is partial over `partial`, leaving this rank's piece of the bucket. Storage axes
/// over which it is partial are reduce-scattered, and the other storage axes are sliced. Removes the self-reduced axes
/// from `partial`. \return the piece.
BufferId scatter_gradient(ProgramBuilder& builder, const Bucket& bucket, BufferId flat, AxisSet& partial,
                          const std::string& label, std::vector<Instruction>& instructions);

/// All-reduces a flat gradient in place over the axes over which it is partial.
void reduce_gradient(ProgramBuilder& builder, BufferId gradient, const AxisSet& partial, const std::string& label,
                     std::vector<Instruction>& instructions);

}  // namespace strata::host
