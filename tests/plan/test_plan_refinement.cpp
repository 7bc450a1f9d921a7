#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "plan/plan_evaluation.hpp"
#include "plan/plan_refinement.hpp"
#include "plan_fixture.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

using host::EvaluatedPlan;
using host::PlanChoice;
using host::PlanPart;
using host::PlanSearchSettings;
using host::PlanSpace;
using host::RefinedPlan;

/// The first choice that has parts for both purposes.
PlanChoice choice_with(const PlanSpace& plans, PlanPurpose one, PlanPurpose other) {
  for (PlanChoice choice : plans.structures()) {
    choice.parts[PlanPurpose::replicas] = plans.parts(PlanPurpose::replicas, choice).empty() ? -1 : 0;
    if (choice.position(one) >= 0 && choice.position(other) >= 0) return choice;
  }
  throw std::logic_error("no choice has both");
}

std::vector<std::string> refinements_of(const PlanSpace& plans, const PlanChoice& choice) {
  std::vector<std::string> texts;
  for (const PlanPart& part : plans.parts(PlanPurpose::refinement, choice)) texts.push_back(part.text());
  return texts;
}

TEST_F(Plans, RulesAreProposedForTheAxesOfThePlanButItsStages) {
  const PlanSpace plans = space();
  const std::vector<std::string> texts =
      refinements_of(plans, choice_with(plans, PlanPurpose::stages, PlanPurpose::tensors));
  const auto has = [&](const std::string& text) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const auto& each) { return each.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(has(R"(layout over=tp rules=["*: seq"])"));
  EXPECT_TRUE(has(R"(layout over=tp rules=["h.0-1: batch"])"));
  EXPECT_TRUE(has(R"(layout over=tp rules=["h.2-3: batch"])"));
  EXPECT_TRUE(has(R"(layout over=tp rules=["h.*.mlp: seq"])"));
  EXPECT_FALSE(has("h.*.mlp: ffn")) << "as *: ffn";
  EXPECT_FALSE(has("over=pp"));
  EXPECT_TRUE(refinements_of(space({.never = {"layout"}}), plans.structures().back()).empty());
}

/// Invented gains that do not depend on each other: the search finds all that are positive.
TEST_F(Plans, ARefinementFindsAllThatHelpsWhateverItsThreads) {
  const PlanSpace plans = space();
  const PlanChoice start = choice_with(plans, PlanPurpose::replicas, PlanPurpose::tensors);
  const std::vector<std::string> texts = refinements_of(plans, start);
  const auto gain = [&](int position) {
    const std::string& text = texts.at(static_cast<std::size_t>(position));
    return static_cast<double>(std::hash<std::string>()(text) % 1000) - 800;
  };
  const auto evaluate = [&](const PlanChoice& choice) {
    EvaluatedPlan plan;
    plan.choice = choice;
    plan.prediction = host::StepPrediction{};
    plan.prediction->seconds = 1e5;
    for (const int position : choice.refinements) plan.prediction->seconds -= gain(position);
    return plan;
  };
  std::set<int> helpful;
  for (int i = 0; i < static_cast<int>(texts.size()); ++i) {
    if (gain(i) >= 120) helpful.insert(i);
  }
  ASSERT_FALSE(helpful.empty());
  for (const int threads : {1, 4}) {
    PlanSearchSettings settings;
    settings.threads = threads;
    const RefinedPlan refined = host::refine_plan(plans, evaluate(start), {{}, evaluate, evaluate}, settings);
    for (const int each : helpful) EXPECT_TRUE(refined.plan.choice.refinements.contains(each)) << texts.at(each);
    for (const int each : refined.plan.choice.refinements) EXPECT_GT(gain(each), 0);
    EXPECT_LE(refined.trials, 200U);
  }
}

/// Every plan that the search accepts is one that the stack's proof accepts, and is better than the one before it.
TEST_F(Plans, AcceptedRefinementsTrainAsOneRank) {
  host::DeviceDescription& device = cluster_.groups[0].device;
  device.peak_flops = {{DType::f32, 100e9}, {DType::bf16, 200e9}};
  device.memory_bandwidth = 10e9;
  cluster_.levels = {{.name = "inside", .devices = 4, .bandwidth = 2e9, .total_bandwidth = 2e9, .latency = 1e-6},
                     {.name = "network", .devices = 8, .bandwidth = 1e8, .total_bandwidth = 1e8, .latency = 1e-5}};
  const PlanSpace plans = space();
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  std::vector<PlanChoice> better;
  PlanSearchSettings settings;
  const auto evaluate = [&](const PlanChoice& choice) { return evaluator.evaluate(choice); };
  for (const PlanPurpose other : {PlanPurpose::tensors, PlanPurpose::stages}) {
    const EvaluatedPlan start = evaluate(choice_with(plans, PlanPurpose::replicas, other));
    ASSERT_TRUE(start.works()) << start.refusal;
    const RefinedPlan refined = host::refine_plan(plans, start, {{}, evaluate, evaluate}, settings);
    EXPECT_LT(refined.plan.prediction->seconds, start.prediction->seconds);
    host::RunConfiguration configuration = plans.configuration(refined.plan.choice);
    configuration.model.options["vocab"] = std::int64_t{256};
    const host::Verification verification = host::verify_stack(configuration, registry_, {2, false});
    EXPECT_LT(verification.difference.worst(), 1e-9) << plans.text(refined.plan.choice);
  }
}

}  // namespace
}  // namespace strata::testing
