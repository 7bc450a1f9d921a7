#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/matrix_piece.hpp"
#include "strata/program.hpp"
#include "strata/registration.hpp"
#include "strata/strategy.hpp"

namespace compress {

/// The state of each worker: what it has not sent yet, in units of the mean gradient.
inline const std::string kError = std::string(strata::kPendingState) + "_gradient";
/// The state of PowerSGD that all workers share: Q, one column after another. A column of zeros begins anew.
inline const std::string kBasis = "power_sgd_basis";

// The ops of one exchange, in their order.
inline constexpr const char* kAddError = "add_pending_gradient";
inline constexpr const char* kLeft = "power_sgd_left";
inline constexpr const char* kOrthonormal = "power_sgd_orthonormal";
inline constexpr const char* kRight = "power_sgd_right";
inline constexpr const char* kProduct = "power_sgd_product";
inline constexpr const char* kPowerStates = "power_sgd_states";
inline constexpr const char* kSelect = "top_k_select";
inline constexpr const char* kScatter = "top_k_scatter";
inline constexpr const char* kTopStates = "top_k_states";

/// A column of P is dropped if what the earlier columns leave of it is shorter than this share of it. The columns of P
/// are then dependent up to rounding, because the matrix has a lower rank.
inline constexpr double kDependent = 1e-6;

/// Number `index` of the random columns with which Q begins. It does not depend on the layout.
[[nodiscard]] double first_basis(const std::string& parameter, std::int64_t index);

void register_reference_kernels(strata::Registration& registration);
void register_host_kernels(strata::Registration& registration);

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
[[nodiscard]] bool shrinks(const PowerSgd& method, const strata::ParameterDescription& parameter, std::int64_t piece,
                           int workers);

void emit_reduction(const PowerSgd& method, strata::ReductionContext& context);

void define_reduction(const PowerSgd& method, strata::DefinedGradient& gradient);

/// Exchange of the largest elements with error feedback (Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory",
/// NeurIPS 2018; Lin et al., "Deep Gradient Compression", ICLR 2018). Each rank chooses from its own piece of each
/// parameter, because a choice among all elements would need an exchange of its own.
struct TopK {
  /// Share of the elements of a piece that are exchanged.
  double density = 0.01;
};

/// True if the chosen elements of `workers` pieces with their indices take fewer bytes than an exact sum of the piece.
/// A rank sends 2 · chosen numbers (workers - 1) times, instead of 2 · piece · (workers - 1) / workers.
[[nodiscard]] bool shrinks(const TopK& method, const strata::ParameterDescription& parameter, std::int64_t piece,
                           int workers);

void emit_reduction(const TopK& method, strata::ReductionContext& context);

void define_reduction(const TopK& method, strata::DefinedGradient& gradient);

}  // namespace compress
