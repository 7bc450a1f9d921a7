#pragma once

#include <map>

#include "compiler/program/program_builder.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Splits collectives over the axes of `chunks` into parts along the batch, together with the matrix products
/// (OpDefinition::is_product) that produce or consume their data. While one part is communicated, the product of
/// another part is computed. Example with two parts: gather 0, gather 1, product 0, product 1, where gather 1 overlaps
/// with product 0. Parts are views, so other readers still see the whole buffer. Wang et al., "Overlap Communication
/// with Dependent Computation via Decomposition in Large Deep Learning Models", ASPLOS 2023.
void overlap_in_chunks(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks);

}  // namespace strata::host
