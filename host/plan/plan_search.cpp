#include "plan/plan_search.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace strata::host {
namespace {

/// The purposes whose proposals a search varies, for a plan with fixed sizes.
constexpr PlanPurpose kPurposes[] = {PlanPurpose::replicas, PlanPurpose::memory, PlanPurpose::stages,
                                     PlanPurpose::tensors, PlanPurpose::sequence};

/// Shares of the way from the fastest proposal to the one that needs the least memory.
constexpr double kFast = 0.2;
constexpr double kLean = 0.75;
constexpr double kThriftiest = 1;

/// About as many are tried of each structure before the best are improved.
constexpr std::size_t kTrialsPerStructure = 6;

/// One after the other, until none of them improves a plan; so often at most.
constexpr int kMostSweeps = 3;

class Search {
 public:
  Search(const PlanSpace& space, const PlanEvaluation& evaluate, const PlanSearchSettings& settings)
      : space_(space), evaluate_(evaluate), settings_(settings) {}

  std::vector<EvaluatedPlan> run() {
    std::vector<PlanChoice> best = try_structures();
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      const std::vector<PlanChoice> before = best;
      for (const PlanPurpose purpose : kPurposes)
        improve(best, [&](const auto& choice) { return others(choice, purpose); });
      improve(best, [&](const auto& choice) { return other_micro_batches(choice); });
      improve(best, [&](const auto& choice) { return other_orders(choice); });
      if (best == before) break;
    }
    std::vector<EvaluatedPlan> all;
    for (auto& [choice, plan] : known_) all.push_back(std::move(plan));
    const auto is_better = [&](const auto& a, const auto& b) { return key(a) < key(b); };
    std::sort(all.begin(), all.end(), is_better);
    for (std::size_t i = 0; i < std::min(settings_.finalists, all.size()); ++i) {
      if (all[i].prediction) all[i] = evaluate_(all[i].choice, false);
    }
    std::sort(all.begin(), all.end(), is_better);
    return all;
  }

 private:
  using Key = std::tuple<int, double, PlanChoice>;

  [[nodiscard]] Key key(const EvaluatedPlan& plan) const {
    if (!plan.prediction) return {2, 0, plan.choice};
    if (plan.excess_bytes > 0) return {1, static_cast<double>(plan.excess_bytes), plan.choice};
    const bool is_time = settings_.goal == PlanGoal::time;
    return {0, is_time ? plan.prediction->seconds : static_cast<double>(plan.prediction->peak_bytes), plan.choice};
  }
  [[nodiscard]] Key key(const PlanChoice& choice) const { return key(known_.at(choice)); }

  /// Evaluates those of `choices` that are not known.
  void evaluate(const std::vector<PlanChoice>& choices) {
    std::vector<PlanChoice> missing;
    std::copy_if(choices.begin(), choices.end(), std::back_inserter(missing),
                 [&](const PlanChoice& each) { return !known_.contains(each); });
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    std::vector<EvaluatedPlan> results(missing.size());
    std::atomic<std::size_t> next = 0;
    std::exception_ptr failure;
    const auto work = [&] {
      for (std::size_t i = next++; i < missing.size(); i = next++) {
        try {
          results[i] = evaluate_(missing[i], true);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure) failure = std::current_exception();
          next = missing.size();
        }
        const std::lock_guard lock(mutex_);
        ++done_;
        if (settings_.progress) settings_.progress(done_, planned_);
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (int i = 1; i < settings_.threads; ++i) helpers.emplace_back(work);
      work();
    }
    if (failure) std::rethrow_exception(failure);
    for (EvaluatedPlan& each : results) known_.emplace(each.choice, std::move(each));
  }

  /// Tries each structure with little memory first. Those that do not fit then get one more trial with the least
  /// memory, the others trials with more. \return the best choice of each of the best structures.
  std::vector<PlanChoice> try_structures() {
    const std::vector<PlanChoice> structures = space_.structures();
    std::vector<PlanChoice> best;
    for (const PlanChoice& structure : structures) best.push_back(probe(structure, kLean, true));
    planned_ = best.size() * kTrialsPerStructure;
    evaluate(best);
    improve(best, [&](const PlanChoice& lean) -> std::vector<PlanChoice> {
      if (!known_.at(lean).works()) return {probe(lean, kThriftiest, true)};
      return {probe(lean, kFast, false), probe(lean, kFast, true), probe(lean, kLean, false)};
    });
    // A sharded model is only fast with enough samples at once, so structures are compared with these.
    improve(best, [&](const PlanChoice& choice) {
      return known_.at(choice).works() ? other_micro_batches(choice) : std::vector<PlanChoice>{};
    });
    std::sort(best.begin(), best.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    best.resize(std::min(best.size(), settings_.beam));
    return best;
  }

  /// The structure with a proposal for replicas at that share of the way from the fastest to the one that needs the
  /// least memory, and with the one for memory that saves most, or with none.
  [[nodiscard]] PlanChoice probe(PlanChoice structure, double way, bool saves) const {
    const int replicas = count(structure, PlanPurpose::replicas);
    const int memory = count(structure, PlanPurpose::memory);
    if (replicas > 0) structure.parts[PlanPurpose::replicas] = static_cast<int>(way * (replicas - 1));
    const bool is_saving = memory > 0 && (saves || space_.is_required(PlanPurpose::memory));
    structure.parts[PlanPurpose::memory] = is_saving ? memory - 1 : -1;
    return structure;
  }

  [[nodiscard]] int count(const PlanChoice& choice, PlanPurpose purpose) const {
    return static_cast<int>(space_.parts(purpose, choice).size());
  }

  /// Replaces each choice by the best of its neighbours if that is better.
  template <class Neighbours>
  void improve(std::vector<PlanChoice>& best, const Neighbours& neighbours) {
    std::vector<std::vector<PlanChoice>> tried;
    std::vector<PlanChoice> all;
    for (const PlanChoice& each : best) {
      tried.push_back(neighbours(each));
      all.insert(all.end(), tried.back().begin(), tried.back().end());
    }
    planned_ = std::max(planned_, done_ + all.size());
    evaluate(all);
    for (std::size_t i = 0; i < best.size(); ++i) {
      for (const PlanChoice& each : tried[i]) {
        if (key(each) < key(best[i])) best[i] = each;
      }
    }
  }

  /// The choices with another proposal of the same ranks for the purpose, or without one where it needs no ranks.
  [[nodiscard]] std::vector<PlanChoice> others(const PlanChoice& choice, PlanPurpose purpose) const {
    std::vector<PlanChoice> found;
    const std::vector<PlanPart> parts = space_.parts(purpose, choice);
    const int position = choice.position(purpose);
    const int ranks = position < 0 ? 1 : parts.at(static_cast<std::size_t>(position)).proposal.ranks;
    const int first = ranks == 1 && !space_.is_required(purpose) ? -1 : 0;
    for (int i = first; i < static_cast<int>(parts.size()); ++i) {
      if (i == position || (i >= 0 && parts[static_cast<std::size_t>(i)].proposal.ranks != ranks)) continue;
      found.push_back(choice);
      found.back().parts[purpose] = i;
    }
    return found;
  }

  [[nodiscard]] std::vector<PlanChoice> other_micro_batches(const PlanChoice& choice) const {
    constexpr std::int64_t kNear = 8;
    std::vector<PlanChoice> found;
    for (const std::int64_t micro_batch : space_.micro_batches(choice)) {
      if (micro_batch > kNear * choice.micro_batch || choice.micro_batch > kNear * micro_batch) continue;
      found.push_back(choice);
      found.back().micro_batch = micro_batch;
    }
    return found;
  }

  [[nodiscard]] std::vector<PlanChoice> other_orders(const PlanChoice& choice) const {
    if (!space_.has_orders(choice)) return {};
    PlanChoice other = choice;
    other.replicas_outermost = !choice.replicas_outermost;
    return {other};
  }

  const PlanSpace& space_;
  const PlanEvaluation& evaluate_;
  const PlanSearchSettings& settings_;
  std::map<PlanChoice, EvaluatedPlan> known_;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::size_t planned_ = 0;
};

}  // namespace

std::vector<EvaluatedPlan> search_plans(const PlanSpace& space, const PlanEvaluation& evaluate,
                                        const PlanSearchSettings& settings) {
  return Search(space, evaluate, settings).run();
}

}  // namespace strata::host
