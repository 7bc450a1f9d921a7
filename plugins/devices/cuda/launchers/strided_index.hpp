#pragma once

#include "kernels/strided_index.cuh"

namespace strata::cuda {

/// Maps every element of the larger operand to its element of the smaller one.
StridedIndex part_index(const devices::BroadcastShape& shape);

/// Offsets in the larger operand of the elements whose index is 0 along all dims except selected ones. Of the first
/// `count` dims, the selected dims are those that the smaller operand has (`present`) or lacks.
StridedIndex index_along(const devices::BroadcastShape& shape, int count, bool present);

}  // namespace strata::cuda
