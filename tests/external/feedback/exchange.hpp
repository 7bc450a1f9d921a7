#pragma once

#include "strata/registration.hpp"

namespace feedback {

/// gradient, error, unit [] f64 -> sum, sent bf16: sum = unit · gradient + error, and `sent` is the sum rounded.
inline constexpr const char* kRound = "feedback_round";
/// sent by all workers bf16, unit [] f64 -> gradient: the sum over the workers / unit. 0 if unit is 0.
inline constexpr const char* kSum = "feedback_sum";
/// sum, sent bf16, scale [] f64 -> error: sum - sent. The error stays if the step applies no gradient, so that scale is
/// 0 or not finite.
inline constexpr const char* kKeep = "feedback_keep";
/// Name of the state that keeps what was rounded off.
inline constexpr const char* kError = "feedback_error";

void register_exchange(strata::Registration& registration);

}  // namespace feedback
