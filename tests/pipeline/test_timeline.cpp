#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/program_sketch.hpp"
#include "pipeline_strategy.hpp"
#include "reports/timeline.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::test::message_of;
using host::test::ProgramSketch;
using ::testing::HasSubstr;

TEST(Timeline, StartsWorkWhenWhatItNeedsIsDone) {
  const host::Timeline timeline = host::simulate_timeline({{{{Phase::forward, 0, 0}, 2}, {{Phase::backward, 0, 0}, 1}},
                                                           {{{Phase::forward, 0, 1}, 3}, {{Phase::backward, 0, 1}, 4}}},
                                                          chain_dependencies(2));
  const auto& first = timeline.stages[0].events;
  const auto& second = timeline.stages[1].events;
  EXPECT_EQ(second[0].begin, 2);
  EXPECT_EQ(second[1].begin, 5);
  EXPECT_EQ(first[1].begin, 9);
  EXPECT_EQ(timeline.makespan, 10);
  EXPECT_EQ(timeline.stages[0].busy, 3);
  EXPECT_EQ(timeline.bubble_fraction(), 1);  // 10 of 20 idle
}

TEST(Timeline, NamesWhoWaitsForEver) {
  // Each stage's gradient comes after the message that the other stage waits for.
  const auto circular = [] {
    (void)host::simulate_timeline(
        {{{{Phase::backward, 0, 0}, 1}, {{Phase::forward, 0, 0}, 1}}, {{{Phase::forward, 0, 1}, 1}}},
        chain_dependencies(2));
  };
  EXPECT_THAT(message_of<VerificationError>(circular),
              HasSubstr("stage 0 waits for ever with B of micro-batch 0, chunk 0"));
  const auto repeated = [] {
    (void)host::simulate_timeline({{{{Phase::forward, 0, 0}, 1}, {{Phase::forward, 0, 0}, 1}}}, {});
  };
  EXPECT_THAT(message_of<VerificationError>(repeated), HasSubstr("does F of micro-batch 0, chunk 0 again"));
}

/// A stage with a different schedule than the others is found, unless that order happens to work.
TEST(Timeline, FindsStagesThatDisagree) {
  const PipelinePlugin plugin;
  const PipelineCase row{"interleaved", 2, 2, 4};
  auto work = equal_work(*plugin.create_case(row), row);
  std::reverse(work[1].begin(), work[1].end());
  EXPECT_THROW((void)host::simulate_timeline(work, chain_dependencies(row.chunks())), VerificationError);
}

/// Programs of two stages with one chunk each, in the compiler's layout: messages in tasks, tasks in a schedule.
class TwoStagePrograms : public ::testing::Test {
 protected:
  TwoStagePrograms() {
    for (int stage = 0; stage < 2; ++stage) {
      Program& program = programs_[stage];
      ProgramSketch sketch(program);
      program.mesh = Mesh({{"pp", 2}});
      const BufferId buffer = sketch.buffer("x", 4);
      sketch.task(Task::Kind::prologue);
      const int forward = sketch.task(Task::Kind::forward);
      const int backward = sketch.task(Task::Kind::backward);
      program.tasks[1].chunk = program.tasks[2].chunk = stage;
      program.tasks[1].instructions = {stage == 0 ? sketch.send(1, "pp", 1, buffer)
                                                  : sketch.receive(1, "pp", 0, buffer)};
      program.tasks[2].instructions = {stage == 0 ? sketch.receive(2, "pp", 1, buffer)
                                                  : sketch.send(2, "pp", 0, buffer)};
      program.schedule = {{0, -1}, {forward, 0, false}, {forward, 1}, {backward, 0, false}, {backward, 1}};
    }
    stages_.axis = "pp";
    stages_.count = 2;
    stages_.stage_of_chunk = {0, 1};
  }

  [[nodiscard]] host::Timeline simulate() const {
    return host::simulate_programs({programs_, programs_ + 1}, "pp", host::equal_durations(stages_));
  }

  Program programs_[2];
  host::Stages stages_;
};

TEST_F(TwoStagePrograms, WaitForEachOthersMessages) {
  const host::Timeline timeline = simulate();
  EXPECT_EQ(timeline.stages[0].events.size(), 4U);  // without the prologue
  EXPECT_EQ(timeline.stages[1].events[0].begin, 1);
  EXPECT_EQ(timeline.stages[0].events[2].begin, 5);
  EXPECT_DOUBLE_EQ(timeline.bubble_fraction(), 0.5);  // GPipe: (p - 1) / m
  EXPECT_EQ(timeline.stages[0].in_flight, 2);
}

TEST_F(TwoStagePrograms, OfManyMicroBatchesAreSummarizedBySome) {
  constexpr int kCount = 1000;
  for (Program& program : programs_) {
    program.micro_batches = kCount;
    program.schedule.clear();
  }
  programs_[0].schedule.push_back({1, 0, false});
  for (int i = 0; i < kCount; ++i) {
    if (i + 1 < kCount) programs_[0].schedule.push_back({1, i + 1, i + 2 == kCount});
    programs_[0].schedule.push_back({2, i, i + 1 == kCount});
    for (const int task : {1, 2}) programs_[1].schedule.push_back({task, i, i + 1 == kCount});
  }
  const host::Timeline whole = simulate();
  const host::Timeline brief =
      host::summarize_programs({programs_, programs_ + 1}, "pp", host::equal_durations(stages_));
  EXPECT_TRUE(brief.stages[0].events.empty());
  EXPECT_DOUBLE_EQ(brief.makespan, whole.makespan);
  EXPECT_DOUBLE_EQ(brief.bubble_fraction(), whole.bubble_fraction());
  EXPECT_EQ(brief.stages[0].in_flight, whole.stages[0].in_flight);
}

TEST_F(TwoStagePrograms, WithoutASenderAreRefused) {
  programs_[1].tasks[2].instructions.clear();
  EXPECT_THAT(message_of<VerificationError>([&] { (void)simulate(); }),
              HasSubstr("no stage sends 'm2', which the B task of chunk 0 receives"));
}

TEST_F(TwoStagePrograms, IgnoreRingsAlongTheAxis) {
  const ProgramSketch sketch(programs_[0]);
  Instruction ring = sketch.receive(9, "pp", 1, 0);
  ring.as<Receive>()->from.is_relative = true;
  programs_[0].tasks[1].instructions.push_back(ring);
  EXPECT_EQ(simulate().makespan, 9);
}

TEST(TimelineDurations, AreTheFlopsOfTheChunksNodes) {
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  BuiltPlugins plugins;
  const auto& factory = plugins.load<ModelFactory>("gpt2");
  const auto model = factory.create(Options(factory.options(), {{"layers", std::int64_t{2}},
                                                                {"heads", std::int64_t{2}},
                                                                {"embed", std::int64_t{16}},
                                                                {"context", std::int64_t{8}}}));
  Graph graph;
  graph.sizes = model->sizes();
  graph.sizes.insert({{"batch", 1}, {"vocab", 32}});
  GraphBuilder builder(graph, registry, GraphMode::training, DType::f32);
  model->build(builder);
  differentiate(graph, registry);
  decompose(graph, registry);
  host::Stages stages;
  stages.chunk_of_block = {0, 0, 1, 1};
  stages.stage_of_chunk = {0, 1};
  const std::vector<BlockCost> blocks = host::block_costs(graph, registry);
  const double unit =
      (blocks[0].forward_flops + blocks[1].forward_flops + blocks[2].forward_flops + blocks[3].forward_flops) / 2;
  const auto duration = [&](Task::Kind kind, int chunk) {
    Task task;
    task.kind = kind;
    task.chunk = chunk;
    return host::flop_durations(graph, registry, stages)({}, task);
  };
  EXPECT_NEAR(duration(Task::Kind::forward, 0), (blocks[0].forward_flops + blocks[1].forward_flops) / unit, 1e-12);
  const double backward = (blocks[2].backward_flops + blocks[3].backward_flops) / unit;
  EXPECT_NEAR(duration(Task::Kind::backward, 1), backward, 1e-12);
  stages.splits_weight_gradients = true;
  EXPECT_GT(duration(Task::Kind::weight, 1), 0.3 * backward);
  EXPECT_NEAR(duration(Task::Kind::backward, 1) + duration(Task::Kind::weight, 1), backward, 1e-12);
}

}  // namespace
}  // namespace strata::testing
