#pragma once

#include <cstdint>

#include "strata/matrix_piece.hpp"
#include "strata/strategy.hpp"

namespace compress {

/// Compression of a matrix to two factors of low rank (Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank
/// Gradient Compression for Distributed Optimization", NeurIPS 2019). One step of subspace iteration, which continues
/// where the last step ended, finds the factors:
///
///   M = gradient + error                  on each worker
///   P = sum of M Q                        over the workers
///   P = orthonormal columns of P
///   own = Mᵀ P                            on each worker
///   Q = sum of own                        over the workers
///   gradient = P Qᵀ
///   error = M - P ownᵀ                    on each worker
struct PowerSgd {
  std::int64_t rank = 1;
};

/// Number of indices of some dimensions of the parameter: the product of their sizes.
[[nodiscard]] std::int64_t element_count(const strata::ParameterDescription& parameter, const strata::Dims& dims);

/// True if the factors, which every rank exchanges whole, have fewer elements than its piece of the parameter.
[[nodiscard]] bool shrinks(const PowerSgd& method, const strata::ParameterDescription& parameter, std::int64_t piece);

void emit_reduction(const PowerSgd& method, strata::ReductionContext& context);

void define_reduction(const PowerSgd& method, strata::DefinedGradient& gradient);

}  // namespace compress
