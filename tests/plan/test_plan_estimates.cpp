#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/alike_blocks.hpp"
#include "plan/find_plans.hpp"
#include "plan/plan_evaluation.hpp"
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

/// The program without the names of its stage, which no trial reads. Messages between stages keep their ids.
std::string nameless(Program program, const Axis& stages) {
  std::string numbers;
  for (Buffer& buffer : program.buffers) buffer.name.clear();
  for (StoredParameter& parameter : program.parameters) parameter.name.clear();
  for (Task& task : program.tasks) {
    task.name = std::to_string(task.chunk);
    for (Instruction& instruction : task.instructions) {
      instruction.name = "block " + std::to_string(instruction.block);
      if (auto* collective = instruction.as<Collective>()) collective->id = 0;
      auto* send = instruction.as<Send>();
      auto* receive = instruction.as<Receive>();
      if (send != nullptr && send->to.axis != stages) send->id = 0;
      if (receive != nullptr && receive->from.axis != stages) receive->id = 0;
      if (send != nullptr) numbers += " " + std::to_string(send->channel);
      if (receive != nullptr) numbers += " " + std::to_string(receive->channel);
    }
  }
  return to_string(program) + numbers;
}

/// One program for all stages that are alike must be that of each of them.
TEST_F(PlanEstimates, OfAlikeStagesHaveTheProgramsOfEachStage) {
  configuration_.model.options["layers"] = OptionValue(std::int64_t{14});
  configuration_.batch.global = 32;
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  std::set<std::string> texts;
  std::size_t number = 0;
  for (PlanChoice choice : drawn_choices(plans, 40)) {
    choice.micro_batch = 1;
    draw_stages(plans, choice, number++);
    if (plans.stages(choice) < 4 || !texts.insert(plans.text(choice)).second) continue;
    const host::RunSetup setup = plans.prepare_trial(choice, registry_);
    const std::unique_ptr<Device> device =
        host::described_device(cluster_.name, cluster_.groups[0].device.memory_bytes, *setup.ops, {});
    host::CompileRequest request = setup.request(GraphMode::training, setup.sizes(plans.data()));
    request.device = device.get();
    request.packing = host::PackingEffort::quick;
    const host::Compiled each = host::compile(request);
    request.is_trial = true;
    const host::Compiled repeated = host::compile(request);
    ASSERT_EQ(each.programs.size(), repeated.programs.size());
    std::int64_t bytes = 0;
    std::int64_t repeated_bytes = 0;
    for (std::size_t i = 0; i < each.programs.size(); ++i) {
      EXPECT_EQ(nameless(each.programs[i], each.stages.axis), nameless(repeated.programs[i], each.stages.axis))
          << plans.text(choice) << ", class " << i;
      bytes = std::max(bytes, each.plans[i].arena_bytes);
      repeated_bytes = std::max(repeated_bytes, repeated.plans[i].arena_bytes);
    }
    EXPECT_NEAR(static_cast<double>(repeated_bytes) / static_cast<double>(bytes), 1, 0.05) << plans.text(choice);
    EXPECT_EQ(host::simulate_step(each, *setup.ops, cluster_).seconds,
              host::simulate_step(repeated, *setup.ops, cluster_).seconds);
  }
  EXPECT_GT(texts.size(), 5U);
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

/// Experts and sequences deal tokens both, so that a plan has one of them. The search begins with each. Replicas shard
/// what experts leave whole over the ranks of the experts too.
TEST_F(PlanEstimates, OfMixturesHaveExperts) {
  configuration_.model.plugin = "mixture";
  configuration_.model.options = {{"layers", OptionValue(std::int64_t{2})},  {"heads", OptionValue(std::int64_t{4})},
                                  {"embed", OptionValue(std::int64_t{32})},  {"ffn", OptionValue(std::int64_t{32})},
                                  {"experts", OptionValue(std::int64_t{4})}, {"choices", OptionValue(std::int64_t{2})},
                                  {"context", OptionValue(std::int64_t{16})}};
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  const host::PlanEvaluator evaluator(plans, registry_, cluster_);
  std::set<std::string> with_experts;
  for (PlanChoice choice : plans.structures()) {
    const auto replicas = static_cast<int>(plans.parts(PlanPurpose::replicas, choice).size());
    for (const int replica : {0, replicas - 1}) {
      choice.parts[PlanPurpose::replicas] = std::min(replica, replicas - 1);
      if (evaluator.estimate(choice).prediction) with_experts.insert(plans.text(choice));
    }
  }
  for (const std::string text : {"expert 2", "expert 4", "also_over=[\"ep\"]"}) {
    EXPECT_TRUE(std::any_of(with_experts.begin(), with_experts.end(), [&](const std::string& plan) {
      return plan.find(text) != std::string::npos;
    })) << text;
  }
}

TEST_F(PlanEstimates, PlansUseAsManyDevicesAsAsked) {
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {.devices = 4});
  for (const PlanChoice& structure : plans.structures()) {
    PlanChoice choice = structure;
    choice.parts[PlanPurpose::replicas] = plans.parts(PlanPurpose::replicas, choice).empty() ? -1 : 0;
    EXPECT_EQ(host::prepare(plans.configuration(choice), registry_).stack.mesh.rank_count(), 4) << plans.text(choice);
  }
}

/// States that do not fit into the host memory of a node are no way to save memory of devices.
TEST_F(PlanEstimates, OfOffloadedStatesNeedHostMemory) {
  cluster_.groups[0].device.host_bandwidth = 1e9;
  for (const std::int64_t host_memory : {0, 1 << 16, 1 << 30}) {  // 0: unknown
    cluster_.groups[0].host_memory_bytes = host_memory;
    const PlanSpace plans(configuration_, registry_, cluster_, 256, {.fixed = {"zero.offload_optimizer=host"}});
    PlanChoice choice = plans.structures().front();
    choice.parts[PlanPurpose::replicas] = 0;
    const EvaluatedPlan plan = host::PlanEvaluator(plans, registry_, cluster_).estimate(choice);
    ASSERT_TRUE(plan.prediction) << plan.refusal;
    const std::int64_t excess = host_memory == 1 << 16 ? plan.prediction->offloaded_bytes - host_memory / 4 : 0;
    EXPECT_EQ(plan.excess_bytes, excess) << host_memory;
    EXPECT_GT(plan.prediction->offloaded_bytes, 0);
  }
}

/// A plan whose estimate was wrong makes room for the next one.
TEST_F(PlanEstimates, APlanThatCannotRunIsNotTheAnswer) {
  cluster_.groups[0].device.memory_bytes = std::int64_t{2} << 30;
  configuration_.model.options["embed"] = std::int64_t{1024};
  host::DevicePlans plans{std::make_unique<PlanSpace>(configuration_, registry_, cluster_, 256, host::PlanDemands{}),
                          {}};
  PlanChoice choice = plans.space->structures().front();
  for (const std::string text : {"ddp 8 · micro-batch 1", "zero 8 stage=3 · micro-batch 1"}) {
    int& part = choice.parts[PlanPurpose::replicas] = 0;
    while (plans.space->text(choice) != text) ++part;
    plans.plans.push_back({.choice = choice, .prediction = host::StepPrediction{}, .refusal = {}});
  }
  const auto chosen = host::check_first(plans, {.cluster = cluster_, .vocab = 256}, registry_);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(plans.plans.front().choice, choice);
  EXPECT_EQ(chosen->strategies, plans.space->configuration(choice).strategies);
  EXPECT_NE(plans.plans.back().refusal.find("bytes, its "), std::string::npos) << plans.plans.back().refusal;
  EXPECT_FALSE(plans.plans.back().works());
}

/// Copies of checkpoints need host memory, which the search does not count: 32 MiB for a rank if training waits.
TEST_F(PlanEstimates, AChosenPlanHasAPlaceForItsCheckpoints) {
  host::NodeGroup& node = cluster_.groups.front();
  node.device.name = "gpu";
  node.device.host_bandwidth = 1e10;
  node.device.memory_bytes = std::int64_t{1} << 34;
  configuration_.model.options["embed"] = std::int64_t{1024};
  configuration_.run.checkpoint_every = 1;
  const PlanSpace plans(configuration_, registry_, cluster_, 256, {});
  PlanChoice choice = plans.structures().front();
  choice.parts[PlanPurpose::replicas] = 0;
  for (const auto& [bytes, mode] : {std::pair{std::int64_t{1} << 32, host::CheckpointMode::background},
                                    std::pair{std::int64_t{1} << 28, host::CheckpointMode::foreground}}) {
    node.host_memory_bytes = bytes;
    const host::InspectionTarget target{.cluster = cluster_, .vocab = 256};
    const auto checked = host::check_plan(plans, choice, target, registry_);
    EXPECT_EQ(checked.fault, "") << bytes;
    EXPECT_EQ(checked.configuration.run.checkpoint_mode, mode) << bytes;
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
  for (PlanChoice choice : drawn_choices(plans, 40)) {
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
  EXPECT_GT(compared, 12);
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
