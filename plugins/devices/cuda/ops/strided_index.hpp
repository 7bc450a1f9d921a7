#pragma once

#include "kernels/strided_index.cuh"

namespace strata::cuda {

/// The element of the smaller operand for every element of the larger one.
StridedIndex part_index(const devices::BroadcastShape& shape);

/// Where those elements of the larger operand lie that are 0 along all dims but some: of its first `count` dims those
/// that the smaller one has (`present`), or those that it lacks.
StridedIndex index_along(const devices::BroadcastShape& shape, int count, bool present);

}  // namespace strata::cuda
