#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_bounds.hpp"
#include "plan/plan_space.hpp"
#include "simulate/prediction.hpp"

namespace strata::host {

enum class PlanGoal : std::uint8_t { time, memory };

/// What became of one plan.
struct EvaluatedPlan {
  PlanChoice choice;
  /// Empty if the plan cannot exist or was dropped.
  std::optional<StepPrediction> prediction;
  /// Set if the plan was dropped without a prediction, because these bounds exceed what others reach or a device has.
  std::optional<PlanBounds> dropped = {};
  /// Why it cannot exist.
  std::string refusal;
  /// StepPrediction::excess_bytes(). 0: it fits.
  std::int64_t excess_bytes = 0;

  [[nodiscard]] bool works() const { return prediction && excess_bytes == 0; }
};

/// What a search does with a plan.
struct PlanEvaluation {
  /// Lower bounds of estimate(). Null: there are none.
  std::function<PlanBounds(const PlanChoice&)> bounds;
  /// Estimates it quickly.
  std::function<EvaluatedPlan(const PlanChoice&)> estimate;
  /// Predicts it as well as can be.
  std::function<EvaluatedPlan(const PlanChoice&)> evaluate;
  /// Balances the stages of an evaluated plan, which takes too long for all of them. Null: nothing does.
  std::function<EvaluatedPlan(const EvaluatedPlan&)> balance = {};
};

struct PlanSearchSettings {
  PlanGoal goal = PlanGoal::time;
  /// Structures whose options are improved.
  std::size_t beam = 6;
  /// Structures that are worse than the best by more than this factor with little memory are not tried with more.
  double margin = 1.5;
  /// The first plans of the result are evaluated, so many of them.
  std::size_t finalists = 10;
  /// The stages of the first of those are balanced, if the goal is time.
  std::size_t balanced = 3;
  /// Memory of a device. Plans that need more are dropped as soon as another one works.
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
  /// Threads that evaluate plans. The result does not depend on it.
  int threads = 1;
  /// Called with the plans evaluated so far, and how many there will be at most.
  std::function<void(std::size_t done, std::size_t most)> progress;
};

/// Searches the space. First, it estimates each structure, a combination of sizes, with few of its options. Then it
/// improves the options of the best structures one after the other, as long as that helps. At last it evaluates the
/// best plans, and balances the stages of the first of them. Plans are tried in the order of their bounds. A plan is
/// dropped if its bounds exceed the best structure so far by the margin, or later the last of the finalists so far. The
/// search is deterministic. \return all plans, the evaluated ones first. Working plans come first, by the goal. Of
/// plans for the goal time whose steps differ by less than 0.01 %, those with fewer strategies come first, then those
/// with fewer options. Plans that need too much memory follow, by their excess. Then come dropped plans, by their
/// bounds, and at last refused ones.
[[nodiscard]] std::vector<EvaluatedPlan> search_plans(const PlanSpace& space, const PlanEvaluation& evaluate,
                                                      const PlanSearchSettings& settings);

}  // namespace strata::host
