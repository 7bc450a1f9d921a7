#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/alike_blocks.hpp"
#include "plan/plan_evaluation.hpp"
#include "plan/short_model.hpp"
#include "plan_fixture.hpp"
#include "simulate/described_device.hpp"

namespace strata::testing {
namespace {

using host::AlikeBlocks;
using host::EvaluatedPlan;
using host::PlanChoice;
using host::PlanSpace;

/// A model of many layers on machines whose rates are known.
class PlanEstimates : public Plans {
 protected:
  PlanEstimates() {
    configuration_.model.options["layers"] = OptionValue(std::int64_t{16});
    host::DeviceDescription& device = cluster_.groups[0].device;
    device.peak_flops = {{DType::f32, 100e9}, {DType::bf16, 200e9}};
    device.memory_bandwidth = 10e9;
    device.units = 4;
    device.tiles = {{32, 32, 1}};
    cluster_.levels = {{.name = "inside", .devices = 4, .bandwidth = 2e9, .total_bandwidth = 2e9, .latency = 1e-6},
                       {.name = "network", .devices = 8, .bandwidth = 1e9, .total_bandwidth = 1e9, .latency = 1e-5}};
  }

  [[nodiscard]] host::BuiltModel built(std::int64_t layers) {
    host::RunConfiguration configuration = configuration_;
    configuration.model.options["layers"] = OptionValue(layers);
    const host::RunSetup setup = host::prepare(configuration, registry_);
    return *host::build_model(setup.request(GraphMode::training, setup.sizes({{"vocab", 256}})), 2);
  }

  host::RunConfiguration configuration_ = host::parse_configuration(kConfiguration, "plan.toml");
};

/// Names without the numbers of nodes.
std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes()) {
    all.push_back(node.op + " " + node.name + " in block " + std::to_string(node.block) + " of");
    for (const Value& operand : node.operands) all.back() += " " + graph.node(operand.node).name;
  }
  return all;
}

TEST_F(PlanEstimates, LayersAreAlikeAndCanBeLeftOut) {
  const host::BuiltModel long_one = built(7);
  EXPECT_GE(long_one.alike.count, 6);
  const host::BuiltModel short_one = built(3);
  const Graph cut = host::without_blocks(long_one.graph, long_one.alike, 4);
  const auto registry = host::prepare(configuration_, registry_).ops.release();
  const std::unique_ptr<const OpRegistry> owner(registry);
  EXPECT_NO_THROW(verify(cut, *owner, "leaving out blocks"));
  EXPECT_EQ(ops(cut), ops(short_one.graph));
  EXPECT_EQ(cut.parameters.size(), short_one.graph.parameters.size());
}

/// Choices with the proposals and sizes that a generator draws.
std::vector<PlanChoice> drawn_choices(const PlanSpace& space, std::size_t count) {
  std::minstd_rand random(1);
  const std::vector<PlanChoice> structures = space.structures();
  std::vector<PlanChoice> choices;
  while (choices.size() < count) {
    PlanChoice choice = structures[random() % structures.size()];
    for (const PlanPurpose purpose : {PlanPurpose::replicas, PlanPurpose::memory}) {
      const auto parts = static_cast<int>(space.parts(purpose, choice).size());
      if (parts > 0) choice.parts[purpose] = static_cast<int>(random() % static_cast<unsigned>(parts));
    }
    const std::vector<std::int64_t> sizes = space.micro_batches(choice);
    choice.micro_batch = sizes[random() % sizes.size()];
    choices.push_back(choice);
  }
  return choices;
}

/// Replaces the stages' schedule and chunks by another proposal for as many ranks.
void draw_stages(const PlanSpace& space, PlanChoice& choice, std::size_t number) {
  const std::vector<host::PlanPart> parts = space.parts(PlanPurpose::stages, choice);
  std::vector<int> fitting;
  for (int i = 0; i < static_cast<int>(parts.size()); ++i) {
    if (parts[static_cast<std::size_t>(i)].proposal.ranks == space.stages(choice)) fitting.push_back(i);
  }
  if (!fitting.empty()) choice.parts[PlanPurpose::stages] = fitting[number % fitting.size()];
}

/// A model too short to be cut is compiled whole, but for the packing of its memory.
TEST_F(PlanEstimates, OfAModelWithFewLayersAreExactAndNeverHaveMoreMemory) {
  configuration_.model.options["layers"] = OptionValue(std::int64_t{2});
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  int compared = 0;
  for (const PlanChoice& choice : drawn_choices(plans, 40)) {
    const EvaluatedPlan quick = evaluator.estimate(choice);
    const EvaluatedPlan whole = evaluator.evaluate(choice);
    if (!whole.prediction) continue;
    ASSERT_TRUE(quick.prediction) << plans.text(choice);
    EXPECT_EQ(quick.prediction->seconds, whole.prediction->seconds) << plans.text(choice);
    EXPECT_LE(quick.prediction->peak_bytes, whole.prediction->peak_bytes) << plans.text(choice);
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

TEST_F(PlanEstimates, PlansUseAsManyDevicesAsAsked) {
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {.devices = 4});
  for (const PlanChoice& structure : plans.structures()) {
    PlanChoice choice = structure;
    choice.parts[PlanPurpose::replicas] = plans.parts(PlanPurpose::replicas, choice).empty() ? -1 : 0;
    EXPECT_EQ(host::prepare(plans.configuration(choice), registry_).stack.mesh.rank_count(), 4) << plans.text(choice);
  }
}

/// A bound above what a simulation says makes the search drop the best plan.
TEST_F(PlanEstimates, OfWorkThatNothingAvoidsAreNeverAboveTheWholeModel) {
  constexpr std::size_t kDrawn = 500;
  configuration_.model.options["layers"] = OptionValue(std::int64_t{8});
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  std::set<PlanChoice> drawn;
  int compared = 0;
  double tightest = 0;
  for (PlanChoice choice : drawn_choices(plans, kDrawn)) {
    draw_stages(plans, choice, drawn.size());
    if (!drawn.insert(choice).second) continue;
    const host::PlanBounds bounds = evaluator.bounds(choice);
    if (bounds.seconds == 0) continue;
    const EvaluatedPlan whole = evaluator.evaluate(choice);
    if (!whole.prediction) continue;
    EXPECT_LE(bounds.seconds, whole.prediction->seconds) << plans.text(choice);
    EXPECT_LE(bounds.bytes, whole.prediction->peak_bytes) << plans.text(choice);
    tightest = std::max(tightest, bounds.seconds / whole.prediction->seconds);
    ++compared;
  }
  EXPECT_GT(compared, 50);
  EXPECT_GT(tightest, 0.5);
}

/// Rounds of a pipeline cost the same once it is full.
TEST_F(PlanEstimates, OfManyMicroBatchesAreNearToAllOfThem) {
  configuration_.model.options["layers"] = OptionValue(std::int64_t{6});
  configuration_.batch.global = 64;
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  std::size_t number = 0;
  int compared = 0;
  for (PlanChoice choice : drawn_choices(plans, 60)) {
    choice.micro_batch = 1;
    draw_stages(plans, choice, number++);
    const host::RunSetup setup = plans.prepare_trial(choice, registry_);
    const EvaluatedPlan shorter = evaluator.evaluate(choice);
    if (!shorter.prediction) continue;
    const std::unique_ptr<Device> device =
        host::described_device(cluster_.name, cluster_.groups[0].device.memory_bytes, *setup.ops, {});
    host::CompileRequest request = setup.request(GraphMode::training, setup.sizes(plans.data()));
    request.device = device.get();
    request.packing = host::PackingEffort::quick;
    const host::StepPrediction whole = host::simulate_step(host::compile(request), *setup.ops, cluster_);
    EXPECT_NEAR(shorter.prediction->seconds / whole.seconds, 1, 0.01) << plans.text(choice);
    EXPECT_NEAR(shorter.prediction->tokens, whole.tokens, 1e-6 * whole.tokens) << plans.text(choice);
    EXPECT_NEAR(shorter.prediction->model_flops_utilization / whole.model_flops_utilization, 1, 0.01);
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

/// What a trial says must be near to what the whole model says, or the search prefers the wrong plans.
TEST_F(PlanEstimates, AreNearToTheWholeModel) {
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  double error = 0;
  int compared = 0;
  for (const PlanChoice& choice : drawn_choices(plans, 20)) {
    const EvaluatedPlan quick = evaluator.estimate(choice);
    const EvaluatedPlan whole = evaluator.evaluate(choice);
    ASSERT_EQ(quick.prediction.has_value(), whole.prediction.has_value()) << plans.text(choice) << whole.refusal;
    if (!whole.prediction) continue;
    const double of_time = quick.prediction->seconds / whole.prediction->seconds - 1;
    const double of_memory =
        static_cast<double>(quick.prediction->peak_bytes) / static_cast<double>(whole.prediction->peak_bytes) - 1;
    EXPECT_LT(std::abs(of_time), 0.1) << plans.text(choice);
    EXPECT_LT(std::abs(of_memory), 0.2) << plans.text(choice);
    error += std::abs(of_time);
    ++compared;
  }
  EXPECT_GT(compared, 10);
  EXPECT_LT(error / compared, 0.02);
}

}  // namespace
}  // namespace strata::testing
