#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/program.hpp"
#include "strata/registration.hpp"

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

void register_ops(strata::Registration& registration);
void register_reference_kernels(strata::Registration& registration);
void register_host_kernels(strata::Registration& registration);

}  // namespace compress
