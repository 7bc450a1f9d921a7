#pragma once

#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Cuts collectives of activations, and the matrix products that they feed or finish, into parts along the batch, where
/// a strategy asks for it (Strategy::chunked_overlap): while one part travels, the next is computed. Parts are views,
/// so every other reader still finds the whole. Wang et al., "Overlap Communication with Dependent Computation via
/// Decomposition in Large Deep Learning Models", ASPLOS 2023.
void overlap_in_chunks(ProgramBuilder& builder);

}  // namespace strata::host
