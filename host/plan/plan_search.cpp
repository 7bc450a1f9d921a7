#include "plan/plan_search.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "plan/parallel_trials.hpp"

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

/// Plans that are evaluated for each wanted one, because some are worse than estimated.
constexpr std::size_t kMostEvaluations = 3;

/// Other boundaries of stages save less than this factor of a step.
constexpr double kBalanceable = 1.1;

/// A step that is shorter by less than this share is not worth more strategies or options.
constexpr double kTie = 1e-4;

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
      improve_micro_batches(best);
      improve(best, [&](const auto& choice) { return other_orders(choice); });
      if (best == before) break;
    }
    return settle();
  }

 private:
  using Key = std::tuple<int, double, PlanChoice>;

  [[nodiscard]] Key key(const EvaluatedPlan& plan) const {
    if (plan.dropped) return {2, value(plan.dropped->seconds, plan.dropped->bytes), plan.choice};
    if (!plan.prediction) return {3, 0, plan.choice};
    if (plan.excess_bytes > 0) return {1, static_cast<double>(plan.excess_bytes), plan.choice};
    return {0, value(plan.prediction->seconds, plan.prediction->peak_bytes), plan.choice};
  }
  /// The quantity that the goal minimises.
  [[nodiscard]] double value(double seconds, std::int64_t bytes) const {
    return settings_.goal == PlanGoal::time ? seconds : static_cast<double>(bytes);
  }
  [[nodiscard]] Key key(const PlanChoice& choice) const { return key(known_.at(choice)); }

  /// Evaluates the best plans, until as many as wanted are better than what the others are estimated to be. \return
  /// all plans, the evaluated ones first.
  std::vector<EvaluatedPlan> settle() {
    std::vector<EvaluatedPlan> open;
    for (auto& [choice, plan] : known_) open.push_back(std::move(plan));
    const auto is_better = [&](const auto& a, const auto& b) { return key(a) < key(b); };
    std::ranges::sort(open, is_better);
    std::vector<EvaluatedPlan> settled;
    const std::size_t most = std::min(kMostEvaluations * settings_.finalists, open.size());
    while (settled.size() < most) {
      std::vector<PlanChoice> next;
      for (std::size_t i = settled.size(); i < most && i < settled.size() + settings_.finalists; ++i) {
        const EvaluatedPlan& plan = open[next.size()];
        const bool is_late =
            settled.size() >= settings_.finalists && !is_better(plan, settled[settings_.finalists - 1]);
        if (!plan.prediction || is_late) break;
        next.push_back(plan.choice);
      }
      if (next.empty()) break;
      open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(next.size()));
      for (EvaluatedPlan& each : in_parallel(next, evaluate_.evaluate)) settled.push_back(std::move(each));
      std::ranges::sort(settled, is_better);
    }
    balance(settled);
    std::ranges::sort(settled, is_better);
    put_simple_first(settled);
    std::move(open.begin(), open.end(), std::back_inserter(settled));
    return settled;
  }

  /// Balances the stages of those of the first evaluated plans that may become the best.
  void balance(std::vector<EvaluatedPlan>& settled) {
    if (!evaluate_.balance || settings_.goal != PlanGoal::time) return;
    std::vector<PlanChoice> first;
    std::map<PlanChoice, const EvaluatedPlan*> plans;
    for (std::size_t i = 0; i < std::min(settings_.balanced, settled.size()) && settled[i].works(); ++i) {
      if (settled[i].prediction->seconds > kBalanceable * settled.front().prediction->seconds) break;
      first.push_back(settled[i].choice);
      plans[settled[i].choice] = &settled[i];
    }
    std::vector<EvaluatedPlan> balanced =
        in_parallel(first, [&](const PlanChoice& choice) { return evaluate_.balance(*plans.at(choice)); });
    std::move(balanced.begin(), balanced.end(), settled.begin());
  }

  /// Among plans whose steps differ by less than kTie, puts those with fewer strategies first, then those with fewer
  /// options. `plans`: sorted by time.
  void put_simple_first(std::vector<EvaluatedPlan>& plans) const {
    if (settings_.goal != PlanGoal::time) return;
    for (auto begin = plans.begin(); begin != plans.end() && begin->works();) {
      const double longest = (1 + kTie) * begin->prediction->seconds;
      const auto end = std::find_if(begin, plans.end(), [&](const EvaluatedPlan& plan) {
        return !plan.works() || plan.prediction->seconds > longest;
      });
      std::stable_sort(begin, end, [&](const auto& a, const auto& b) { return length(a.choice) < length(b.choice); });
      begin = end;
    }
  }

  /// How many strategies the choice has, and how many options.
  [[nodiscard]] std::pair<std::size_t, std::size_t> length(const PlanChoice& choice) const {
    const std::vector<PlanPart> parts = space_.chosen(choice);
    std::size_t options = 0;
    for (const PlanPart& part : parts) options += part.proposal.options.size();
    return {parts.size(), options};
  }

  /// Estimates those of `choices` that are not known, but for those that their bounds exclude.
  void estimate(const std::vector<PlanChoice>& choices) {
    std::vector<PlanChoice> missing;
    std::ranges::copy_if(choices, std::back_inserter(missing),
                         [&](const PlanChoice& each) { return !known_.contains(each); });
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    std::vector<EvaluatedPlan> open = bounded(missing);
    for (std::size_t begin = 0; begin < open.size(); begin += kTrialsAtOnce) {
      const double limit = worst_useful();
      std::vector<PlanChoice> next;
      for (std::size_t i = begin; i < std::min(begin + kTrialsAtOnce, open.size()); ++i) {
        const PlanBounds& bounds = *open[i].dropped;
        const bool is_excluded = value(bounds.seconds, bounds.bytes) > limit || bounds.bytes > settings_.memory_bytes;
        if (is_excluded && !values_.empty()) {
          ++done_;
          known_.emplace(open[i].choice, std::move(open[i]));
        } else {
          next.push_back(open[i].choice);
        }
      }
      for (EvaluatedPlan& each : in_parallel(next, evaluate_.estimate)) {
        if (each.works()) values_.insert(std::get<double>(key(each)));
        known_.emplace(each.choice, std::move(each));
      }
    }
  }

  /// The choices as if they were dropped, those with the least bounds first.
  std::vector<EvaluatedPlan> bounded(const std::vector<PlanChoice>& choices) {
    const auto bound = [&](const PlanChoice& choice) {
      EvaluatedPlan plan;
      plan.choice = choice;
      if (evaluate_.bounds) plan.dropped = has_structures_ ? evaluate_.bounds(choice) : structure_bounds(choice);
      if (!plan.dropped) plan.dropped = PlanBounds{};
      return plan;
    };
    const std::size_t done = done_;
    std::vector<EvaluatedPlan> plans = in_parallel(choices, bound);
    done_ = done;
    std::ranges::sort(plans, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    return plans;
  }

  /// A structure may be fast with another micro-batch only. As long as more samples at once bound less, they count.
  [[nodiscard]] PlanBounds structure_bounds(PlanChoice choice) const {
    PlanBounds least = evaluate_.bounds(choice);
    for (const std::int64_t micro_batch : space_.micro_batches(choice)) {
      if (micro_batch <= choice.micro_batch) continue;
      choice.micro_batch = micro_batch;
      const double seconds = evaluate_.bounds(choice).seconds;
      if (seconds >= least.seconds) break;
      least.seconds = seconds;
    }
    return least;
  }

  /// Plans that certainly are worse need no estimate: they would be given up, or not be shown.
  [[nodiscard]] double worst_useful() const {
    if (values_.empty()) return std::numeric_limits<double>::infinity();
    if (!has_structures_) return settings_.margin * *values_.begin();
    const std::size_t last = std::min(settings_.finalists, values_.size()) - 1;
    return *std::next(values_.begin(), static_cast<std::ptrdiff_t>(last));
  }

  std::vector<EvaluatedPlan> in_parallel(const std::vector<PlanChoice>& choices,
                                         const std::function<EvaluatedPlan(const PlanChoice&)>& call) {
    return try_in_parallel(choices, call, settings_.threads, [&] {
      ++done_;
      if (settings_.progress) settings_.progress(done_, planned_);
    });
  }

  /// Tries each structure with little memory, those that do not fit also with the least. Those that then are far from
  /// the best are given up, the others tried with more memory too. \return the best choice of each of the best
  /// structures.
  std::vector<PlanChoice> try_structures() {
    std::vector<PlanChoice> best;
    for (const PlanChoice& structure : space_.structures()) best.push_back(probe(structure, kLean, true));
    planned_ = best.size() * kTrialsPerStructure;
    estimate(best);
    improve(best, [&](const PlanChoice& lean) {
      const EvaluatedPlan& plan = known_.at(lean);
      const bool is_slow = plan.dropped && plan.dropped->bytes <= settings_.memory_bytes;
      return plan.works() || is_slow ? std::vector<PlanChoice>{} : std::vector{probe(lean, kThriftiest, true)};
    });
    // A sharded model is only fast with enough samples at once, so structures are compared with these.
    improve_micro_batches(best);
    give_up_slow(best);
    std::vector<PlanChoice> fast;
    for (PlanChoice choice : best) {
      choice.micro_batch = space_.micro_batches(choice).front();
      fast.push_back(probe(choice, kFast, false));
    }
    estimate(fast);
    improve(fast, [&](const PlanChoice& choice) {
      return std::vector{probe(choice, kFast, true), probe(choice, kLean, false)};
    });
    improve_micro_batches(fast);
    for (std::size_t i = 0; i < best.size(); ++i) {
      if (key(fast[i]) < key(best[i])) best[i] = fast[i];
    }
    std::ranges::sort(best, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    best.resize(std::min(best.size(), settings_.beam));
    has_structures_ = true;
    return best;
  }

  /// Doubles or halves the micro-batch of each choice as long as that helps.
  void improve_micro_batches(std::vector<PlanChoice>& best) {
    for (std::vector<PlanChoice> before; before != best;) {
      before = best;
      improve(best, [&](const PlanChoice& choice) {
        return known_.at(choice).works() ? other_micro_batches(choice) : std::vector<PlanChoice>{};
      });
    }
  }

  /// Removes choices that are much worse than the best. If none fits, all stay.
  void give_up_slow(std::vector<PlanChoice>& choices) const {
    const auto best = std::ranges::min_element(choices, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    if (best == choices.end() || !known_.at(*best).works()) return;
    const double most = settings_.margin * std::get<double>(key(*best));
    std::erase_if(choices, [&](const PlanChoice& choice) {
      return !known_.at(choice).works() || std::get<double>(key(choice)) > most;
    });
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
    estimate(all);
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
    std::vector<PlanChoice> found;
    for (const std::int64_t micro_batch : space_.micro_batches(choice)) {
      if (micro_batch != 2 * choice.micro_batch && choice.micro_batch != 2 * micro_batch) continue;
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
  /// What the goal compares, of all estimates that work.
  std::multiset<double> values_;
  /// Whether the structures to improve are chosen.
  bool has_structures_ = false;
  std::size_t done_ = 0;
  std::size_t planned_ = 0;
};

}  // namespace

std::vector<EvaluatedPlan> search_plans(const PlanSpace& space, const PlanEvaluation& evaluate,
                                        const PlanSearchSettings& settings) {
  return Search(space, evaluate, settings).run();
}

}  // namespace strata::host
