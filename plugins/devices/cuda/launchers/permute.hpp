#pragma once

#include <functional>

#include "language/element.hpp"
#include "shared/einsum.hpp"
#include "strata/dtype.hpp"

namespace strata::cuda {

using PermuteFunction = std::function<void(Stream, const void* from, void* to)>;

/// True if there are kernels that permute from one real type to another: to the same type, from f32 and f64 to any, and
/// from any to f32.
bool can_permute(DType from, DType to);

/// Prepares a permutation. It writes the elements of a tensor in another order, or adds them to the result if
/// `accumulate`.
PermuteFunction prepare_permute(const devices::Permutation& permutation, DType from, DType to, bool accumulate);

}  // namespace strata::cuda
