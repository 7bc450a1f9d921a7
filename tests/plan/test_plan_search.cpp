#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plan/plan_search.hpp"
#include "plan_fixture.hpp"

namespace strata::testing {
namespace {

using host::EvaluatedPlan;
using host::PlanChoice;
using host::PlanSearchSettings;
using host::PlanSpace;

/// An invented cost, whose parts do not depend on each other: a hash of each strategy with its options, and a share of
/// the micro-batch that has one minimum.
double cost(const PlanSpace& space, const PlanChoice& choice) {
  const auto share = [](const std::string& text) { return static_cast<double>(std::hash<std::string>()(text) % 1000); };
  const auto micro_batch = static_cast<double>(choice.micro_batch);
  double seconds = 100 * (micro_batch + 4 / micro_batch) + (choice.replicas_outermost ? 5 : 0);
  for (const host::PlanPart& part : space.chosen(choice)) seconds += share(part.text());
  return seconds;
}

EvaluatedPlan evaluated(const PlanSpace& space, const PlanChoice& choice) {
  EvaluatedPlan plan;
  plan.choice = choice;
  plan.prediction = host::StepPrediction{};
  plan.prediction->seconds = cost(space, choice);
  plan.prediction->peak_bytes = 1;
  return plan;
}

/// All plans with the sizes of `structure`.
std::vector<PlanChoice> variants(const PlanSpace& space, const PlanChoice& structure) {
  std::vector<PlanChoice> all = {structure};
  for (const PlanPurpose purpose :
       {PlanPurpose::stages, PlanPurpose::sequence, PlanPurpose::tensors, PlanPurpose::memory, PlanPurpose::replicas}) {
    std::vector<PlanChoice> longer;
    for (const PlanChoice& choice : all) {
      const auto parts = space.parts(purpose, choice);
      const auto own = choice.parts.find(purpose);
      const bool needs_ranks = purpose != PlanPurpose::memory && purpose != PlanPurpose::replicas;
      if (needs_ranks && own == choice.parts.end()) {
        longer.push_back(choice);
        continue;
      }
      if (!needs_ranks && (purpose == PlanPurpose::memory || parts.empty())) longer.push_back(choice);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (needs_ranks && parts[i].proposal.ranks != parts[static_cast<std::size_t>(own->second)].proposal.ranks)
          continue;
        longer.push_back(choice);
        longer.back().parts[purpose] = static_cast<int>(i);
      }
    }
    all = std::move(longer);
  }
  std::vector<PlanChoice> found;
  for (const PlanChoice& choice : all) {
    for (const std::int64_t micro_batch : space.micro_batches(choice)) {
      found.push_back(choice);
      found.back().micro_batch = micro_batch;
    }
  }
  return found;
}

/// If the parts of a plan cost what they cost whatever the other parts are, improving one after the other finds the
/// best plan of each structure.
TEST_F(Plans, TheSearchFindsTheBestOfEachStructure) {
  const PlanSpace plans = space();
  PlanSearchSettings settings;
  settings.beam = plans.structures().size();
  settings.margin = std::numeric_limits<double>::infinity();
  const auto evaluate = [&](const auto& choice) { return evaluated(plans, choice); };
  const auto found = host::search_plans(plans, {{}, evaluate, evaluate}, settings);
  double best = cost(plans, found.front().choice);
  std::size_t all = 0;
  for (const PlanChoice& structure : plans.structures()) {
    for (const PlanChoice& choice : variants(plans, structure)) {
      EXPECT_GE(cost(plans, choice), best) << plans.text(choice);
      ++all;
    }
  }
  EXPECT_LT(found.size(), all);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.prediction->seconds < b.prediction->seconds;
  }));
}

/// Only plans that may become the best get other boundaries of stages, and the result is in order again.
TEST_F(Plans, TheSearchRefinesTheFirstPlans) {
  const PlanSpace plans = space();
  const auto evaluate = [&](const auto& choice) {
    EvaluatedPlan plan = evaluated(plans, choice);
    plan.prediction->seconds += 5000;  // so that plans differ by little
    return plan;
  };
  std::vector<double> balanced;
  const auto balance = [&](EvaluatedPlan plan) {
    balanced.push_back(plan.prediction->seconds);
    if (balanced.size() == 2) plan.prediction->seconds /= 2;
    return plan;
  };
  const auto before = host::search_plans(plans, {{}, evaluate, evaluate}, {});
  const auto found = host::search_plans(plans, {{}, evaluate, evaluate, balance}, {});
  ASSERT_GE(balanced.size(), 2U);
  EXPECT_LE(balanced.size(), PlanSearchSettings{}.balanced);
  EXPECT_LE(balanced.back(), 1.1 * balanced.front());
  EXPECT_EQ(balanced.front(), before.front().prediction->seconds);
  EXPECT_EQ(found.front().prediction->seconds, balanced[1] / 2);
}

TEST_F(Plans, TheSearchDoesNotDependOnItsThreads) {
  const PlanSpace plans = space();
  std::vector<std::vector<std::string>> results;
  for (const int threads : {1, 4}) {
    PlanSearchSettings settings;
    settings.threads = threads;
    results.emplace_back();
    const auto evaluate = [&](const auto& choice) { return evaluated(plans, choice); };
    for (const auto& each : host::search_plans(plans, {{}, evaluate, evaluate}, settings)) {
      results.back().push_back(plans.text(each.choice));
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

/// Recomputation that saves less than a ten-thousandth of a step is not worth an option.
TEST_F(Plans, TheSearchPrefersTheSimplerOfPlansThatTakeAsLong) {
  const PlanSpace plans = space({.fixed = {"zero.stage=3"}, .never = {"pipeline", "tensor", "context"}});
  PlanSearchSettings settings;
  settings.finalists = 100;  // all of them
  const auto recomputes = [](const PlanChoice& choice) { return choice.position(PlanPurpose::memory) >= 0; };
  for (const double saved : {0.0, 0.00005, 0.0005}) {
    const auto evaluate = [&](const PlanChoice& choice) {
      EvaluatedPlan plan = evaluated(plans, choice);
      plan.prediction->seconds = recomputes(choice) ? 1 - saved : 1;
      return plan;
    };
    const auto found = host::search_plans(plans, {{}, evaluate, evaluate}, settings);
    EXPECT_EQ(recomputes(found.front().choice), saved == 0.0005) << plans.text(found.front().choice);
    EXPECT_EQ(plans.text(found.front().choice) == "zero 8 stage=3 · micro-batch 1", saved < 0.0001);
  }
}

/// A plan that its bounds exclude is not among the best plans, and costs no estimate.
TEST_F(Plans, TheSearchDropsOnlyPlansThatAreNotShown) {
  const PlanSpace plans = space();
  PlanSearchSettings settings;
  settings.finalists = 5;
  const auto evaluate = [&](const PlanChoice& choice) { return evaluated(plans, choice); };
  const auto bounds = [&](const PlanChoice& choice) { return host::PlanBounds{0.9 * cost(plans, choice), 1}; };
  const auto all = host::search_plans(plans, {{}, evaluate, evaluate}, settings);
  const auto found = host::search_plans(plans, {bounds, evaluate, evaluate}, settings);
  for (std::size_t i = 0; i < settings.finalists; ++i)
    EXPECT_EQ(plans.text(found[i].choice), plans.text(all[i].choice));
  const auto dropped = std::count_if(found.begin(), found.end(), [](const auto& plan) { return plan.dropped; });
  EXPECT_GT(dropped, 3);
  for (const EvaluatedPlan& plan : found) {
    if (!plan.dropped) continue;
    EXPECT_GT(plan.dropped->seconds, found[settings.finalists - 1].prediction->seconds) << plans.text(plan.choice);
  }
}

/// Bytes that no device has exclude a plan too, unless no plan works.
TEST_F(Plans, TheSearchDropsPlansThatNeedTooMuchMemory) {
  const PlanSpace plans = space();
  PlanSearchSettings settings;
  settings.memory_bytes = 100;
  const auto has_tensor = [&](const PlanChoice& choice) { return choice.position(PlanPurpose::tensors) >= 0; };
  const auto bounds = [&](const PlanChoice& choice) { return host::PlanBounds{0, has_tensor(choice) ? 50 : 200}; };
  const auto search = [&](bool works) {
    const auto evaluate = [&](const PlanChoice& choice) {
      EvaluatedPlan plan = evaluated(plans, choice);
      plan.excess_bytes = works && has_tensor(choice) ? 0 : 100;
      return plan;
    };
    return host::search_plans(plans, {bounds, evaluate, evaluate}, settings);
  };
  const auto count_dropped = [](const auto& found) {
    return std::count_if(found.begin(), found.end(), [](const auto& plan) { return plan.dropped; });
  };
  EXPECT_GT(count_dropped(search(true)), 0);
  EXPECT_EQ(count_dropped(search(false)), 0);
}

/// Plans that are worse than estimated lose their place.
TEST_F(Plans, TheSearchOrdersPlansByWhatTheyReallyNeed) {
  const PlanSpace plans = space();
  PlanSearchSettings settings;
  settings.finalists = 4;
  const auto evaluate = [&](const PlanChoice& choice) { return evaluated(plans, choice); };
  const auto estimate = [&](const PlanChoice& choice) {
    EvaluatedPlan plan = evaluate(choice);
    if (choice.position(PlanPurpose::memory) == 0) plan.prediction->seconds *= 0.9;
    return plan;
  };
  const auto found = host::search_plans(plans, {{}, estimate, evaluate}, settings);
  for (std::size_t i = 0; i < settings.finalists; ++i) {
    EXPECT_EQ(found[i].prediction->seconds, cost(plans, found[i].choice));
    EXPECT_LE(found.front().prediction->seconds, found[i].prediction->seconds);
    EXPECT_NE(found[i].choice.position(PlanPurpose::memory), 0) << plans.text(found[i].choice);
  }
}

/// Plans that need too much memory come after all that fit, the nearest first, and refused ones last.
TEST_F(Plans, TheSearchOrdersPlansThatDoNotWork) {
  const PlanSpace plans = space();
  const auto evaluate = [&](const PlanChoice& choice) {
    EvaluatedPlan plan = evaluated(plans, choice);
    const auto seconds = static_cast<std::int64_t>(plan.prediction->seconds);
    if (seconds % 3 == 1) plan.excess_bytes = 10000 - seconds;
    if (seconds % 3 == 2) plan.prediction.reset();
    return plan;
  };
  const auto found = host::search_plans(plans, {{}, evaluate, evaluate}, {});
  const auto place = [](const EvaluatedPlan& plan) { return plan.works() ? 0 : plan.prediction ? 1 : 2; };
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(place(found[i - 1]), place(found[i]));
    const bool is_miss = place(found[i - 1]) == 1 && place(found[i]) == 1;
    EXPECT_TRUE(!is_miss || found[i - 1].excess_bytes <= found[i].excess_bytes);
  }
}

}  // namespace
}  // namespace strata::testing
