#include "plan/plan_refinement.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/parallel_trials.hpp"

namespace strata::host {
namespace {

/// So many plans are evaluated at most.
constexpr std::size_t kMostTrials = 200;
/// A plan must be better by this share. Smaller differences are not worth a longer configuration.
constexpr double kLeastGain = 1e-3;

class Refinement {
 public:
  Refinement(const PlanSpace& space, const EvaluatedPlan& plan, const PlanEvaluation& evaluate,
             const PlanSearchSettings& settings)
      : evaluate_(evaluate), settings_(settings), best_(plan) {
    count_ = static_cast<int>(space.parts(PlanPurpose::refinement, plan.choice).size());
  }

  RefinedPlan run() {
    // A sweep is over when each proposal was tried with the best plan.
    for (int tried = 0, at = 0; tried < count_ && trials_ < kMostTrials;) {
      std::vector<PlanChoice> next;
      for (; next.size() < kTrialsAtOnce && tried < count_ && trials_ + next.size() < kMostTrials; ++tried) {
        next.push_back(changed(at));
        at = (at + 1) % count_;
      }
      if (accept_best_of(next)) tried = 0;
    }
    return {std::move(best_), trials_};
  }

 private:
  /// The best plan with the proposal, or without it if the plan has it.
  [[nodiscard]] PlanChoice changed(int proposal) const {
    PlanChoice choice = best_.choice;
    if (choice.refinements.erase(proposal) == 0) choice.refinements.insert(proposal);
    return choice;
  }

  bool accept_best_of(const std::vector<PlanChoice>& choices) {
    const double before = value(best_);
    const std::size_t most = std::min(kMostTrials, trials_ + static_cast<std::size_t>(count_));
    std::size_t done = trials_;
    trials_ += choices.size();
    bool is_better = false;
    for (EvaluatedPlan& each : try_in_parallel(choices, evaluate_.evaluate, settings_.threads, [&] {
           if (settings_.progress) settings_.progress(++done, most);
         })) {
      if (!each.works() || value(each) >= (is_better ? value(best_) : (1 - kLeastGain) * before)) continue;
      best_ = std::move(each);
      is_better = true;
    }
    return is_better;
  }

  /// The quantity that the goal minimises.
  [[nodiscard]] double value(const EvaluatedPlan& plan) const {
    return settings_.goal == PlanGoal::time ? plan.prediction->seconds
                                            : static_cast<double>(plan.prediction->peak_bytes);
  }

  const PlanEvaluation& evaluate_;
  const PlanSearchSettings& settings_;
  EvaluatedPlan best_;
  int count_ = 0;
  std::size_t trials_ = 0;
};

}  // namespace

RefinedPlan refine_plan(const PlanSpace& space, const EvaluatedPlan& plan, const PlanEvaluation& evaluate,
                        const PlanSearchSettings& settings) {
  return Refinement(space, plan, evaluate, settings).run();
}

}  // namespace strata::host
