#pragma once

#include "matrix/matrix_product.hpp"
#include "shared/einsum.hpp"

namespace strata::cuda {

/// Of the op's first two operands.
devices::EinsumPlan plan_of(const OpInstance& op);

/// What the library multiplies for a plan; types and epilogue are the caller's. Matrices that lie row by row are their
/// own transposes column by column: for c = a · b the library multiplies cᵀ = bᵀ · aᵀ.
MatrixProductShape transposed_product(const devices::EinsumPlan& plan);

}  // namespace strata::cuda
