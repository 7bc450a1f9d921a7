#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "plan/plan_search.hpp"

namespace strata::host {

/// Plans that are tried before a search goes on from what they showed. The result must not depend on the number of
/// threads.
inline constexpr std::size_t kTrialsAtOnce = 8;

/// Calls `call` for each choice, on several threads. `finished`: called after each, by one thread at a time; null:
/// nothing. \return the results in the order of the choices. \throws the first exception of a call.
[[nodiscard]] std::vector<EvaluatedPlan> try_in_parallel(const std::vector<PlanChoice>& choices,
                                                         const std::function<EvaluatedPlan(const PlanChoice&)>& call,
                                                         int threads, const std::function<void()>& finished);

}  // namespace strata::host
