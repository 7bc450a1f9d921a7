#pragma once

#include "matrix/matrix_product.hpp"
#include "shared/einsum.hpp"

namespace strata::cuda {

/// The plan of the op's first two operands.
devices::EinsumPlan plan_of(const OpInstance& op);

/// The product that the library computes for a plan. The caller sets types and epilogue. A row-major matrix is its own
/// transpose in column-major order: for c = a · b the library computes cᵀ = bᵀ · aᵀ.
MatrixProductShape transposed_product(const devices::EinsumPlan& plan);

}  // namespace strata::cuda
