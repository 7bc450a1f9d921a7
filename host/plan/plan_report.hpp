#pragma once

#include <string>
#include <vector>

#include "plan/plan_refinement.hpp"
#include "plan/plan_search.hpp"

namespace strata::host {

/// The best plans as a table: step time, rate, use of the devices, memory, what bounds the step, and the plan.
[[nodiscard]] std::string plan_table(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans,
                                     const std::string& unit, std::size_t rows);

/// What a refinement changed: time and memory before and after, and the plan.
[[nodiscard]] std::string refinement_text(const PlanSpace& space, const EvaluatedPlan& before,
                                          const RefinedPlan& refined);

/// What each strategy and each of its options is worth: the best plan with it beside the best plan without it.
[[nodiscard]] std::string plan_reasons(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans);

/// The plans that were dropped by their bounds, those that came nearest first, each beside the best plan. Empty if
/// there are none.
[[nodiscard]] std::string dropped_plans(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans,
                                        std::size_t rows);

/// Why no plan works: the plan that comes nearest to the memory of a device, or how many plans were refused for which
/// reason.
[[nodiscard]] std::string describe_nearest_miss(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans);

}  // namespace strata::host
