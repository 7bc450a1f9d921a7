#pragma once

#include "strata/registration.hpp"

namespace adafactor {

inline constexpr const char* kRowMoment = "row_moment";
inline constexpr const char* kColumnMoment = "column_moment";

/// The ops of one update, in their order.
inline constexpr const char* kSums = "factored_sums";
inline constexpr const char* kMoments = "factored_moments";
inline constexpr const char* kNorm = "factored_norm";
inline constexpr const char* kUpdate = "factored_update";

void register_ops(strata::Registration& registration);
void register_reference_kernels(strata::Registration& registration);
void register_host_kernels(strata::Registration& registration);

}  // namespace adafactor
