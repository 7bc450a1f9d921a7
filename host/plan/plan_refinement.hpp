#pragma once

#include <cstddef>

#include "plan/plan_search.hpp"

namespace strata::host {

/// What a local search made of a plan.
struct RefinedPlan {
  EvaluatedPlan plan;
  /// Plans that were evaluated.
  std::size_t trials = 0;
};

/// Improves a plan by proposals of PlanPurpose::refinement: adds or drops one after the other, as long as one makes the
/// plan better by the goal of `settings`. The search is deterministic, and bounded. `plan`: one that works.
[[nodiscard]] RefinedPlan refine_plan(const PlanSpace& space, const EvaluatedPlan& plan, const PlanEvaluation& evaluate,
                                      const PlanSearchSettings& settings);

}  // namespace strata::host
