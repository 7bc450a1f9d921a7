// Steps that a device captures and launches as graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/graph_device.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "nccl/nccl_ranks.hpp"
#include "runtime/executor.hpp"
#include "runtime/rank_threads.hpp"
#include "runtime/toy_device.hpp"
#include "runtime/toy_program.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using strata::testing::GraphDevice;
using strata::testing::HostDevice;
using strata::testing::StreamDevice;
using strata::testing::ToyDevice;
using strata::testing::ToyProgram;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// A device whose captures and launches fail as a test selects.
class FaultyDevice : public GraphDevice {
 public:
  [[nodiscard]] std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue_work) override {
    auto graph = GraphDevice::capture(enqueue_work);
    if (capture_fails) throw RuntimeError("the recorder is out of order");
    return graph;
  }

  bool capture_fails = false;
  std::uint64_t fails_at_step = kNever;

 private:
  void prepare_launch(const StepContext& step) override {
    if (step.step == fails_at_step) throw RuntimeError("the player is out of order");
  }
};

/// Input in which every token is the number of the step.
class StepInput final : public InputSource {
 public:
  void load(const InputPart& part, std::uint64_t step) override {
    std::fill_n(reinterpret_cast<std::int32_t*>(part.destination), part.dims[0].local_size(),
                static_cast<std::int32_t>(step));
  }
};

/// A program that sums 4 tokens in each of two micro-batches, then over the ranks.
ToyProgram total_of_steps(int ranks) {
  ToyProgram toy(Mesh({{"dp", ranks}}), 2);
  const BufferId tokens = toy.buffer("tokens", DType::i32, {4});
  const BufferId numbers = toy.buffer("numbers", DType::f64, {4});
  const BufferId sum = toy.buffer("sum", DType::f64, {}, true);
  const BufferId total = toy.buffer("total", DType::f64, {}, true);
  toy.task("start", {-1}, Task::Kind::prologue).instructions = {
      ToyProgram::compute("affine", "zero", sum, sum, {{"factor", 0.0}, {"offset", 0.0}})};
  toy.task("forward", {0, 1}).instructions = {ToyProgram::load("tokens", tokens, {{"batch", 4, {}, true}}),
                                              ToyProgram::compute("number", "number", tokens, numbers),
                                              ToyProgram::accumulate("total", "sum", numbers, sum)};
  Instruction read = ToyProgram::compute("affine", "read", total, total, {{"factor", 1.0}, {"offset", 0.0}});
  read.waits = {sum, total};
  toy.task("end", {-1}, Task::Kind::epilogue).instructions = {
      toy.collective(CollectiveKind::all_reduce, "sum", sum, total, {"dp"}), read};
  toy.program.reports = {{"total", total}};
  return toy;
}

struct Result {
  std::vector<double> totals;
  std::optional<GraphUse> first_use;
  std::optional<GraphUse> use;
  int captures = 0;
  std::vector<std::uint64_t> launches;
};

template <class Base>
Result run(World& world, int steps, const std::function<void(Base&)>& set_up) {
  const Program program = total_of_steps(world.rank_count()).program;
  const MemoryPlan plan = plan_memory(program);
  Result result;
  run_rank_threads(
      world, [](int) { return std::make_shared<ToyDevice<Base>>(); },
      [&](Device& device, Communicator& communicator) {
        auto& toy = dynamic_cast<Base&>(device);
        if (set_up) set_up(toy);
        const auto arena = std::make_shared<Arena>(device, plan.arena_bytes);
        Executor executor(program, plan, communicator.rank(), 1, device, communicator, arena, nullptr, true);
        StepInput input;
        for (int step = 0; step < steps; ++step) {
          result.totals.push_back(executor.run(static_cast<std::uint64_t>(step), 0, input).at("total"));
          EXPECT_EQ(executor.traffic().at("all_reduce dp").calls, 1) << "in graphs or not";
          if (step == 0) result.first_use = executor.graph_use();
        }
        EXPECT_EQ(arena->peak_bytes(), plan.arena_bytes);
        result.use = executor.graph_use();
        if constexpr (std::is_same_v<Base, FaultyDevice>) {
          result.captures = toy.captures;
          result.launches = toy.launches;
        }
      });
  return result;
}

template <class Base>
Result run(int steps, const std::function<void(Base&)>& set_up) {
  local::LocalWorld world(1, 60);
  return run(world, steps, set_up);
}

TEST(StepRunner, CapturesTheSecondStepAndLaunchesItWithNewInputs) {
  const Result result = run<FaultyDevice>(4, {});
  EXPECT_THAT(result.totals, ElementsAre(0, 8, 16, 24));
  EXPECT_EQ(result.captures, 1);
  EXPECT_THAT(result.launches, ElementsAre(1, 2, 3));
  EXPECT_FALSE(result.first_use.has_value());
  ASSERT_TRUE(result.use.has_value());
  // The last two instructions are the collective and its reader: too few for a separate graph.
  EXPECT_EQ(result.use->graphs, 1U);
  EXPECT_EQ(result.use->captured, 7U);
  EXPECT_EQ(result.use->instructions, 9U);
  EXPECT_THAT(result.use->communication_outside, Optional(HasSubstr("there is one rank")));
  EXPECT_EQ(result.use->refusal, std::nullopt);
}

TEST(StepRunner, GoesOnWithoutGraphsWhereACaptureFails) {
  const Result result = run<FaultyDevice>(4, [](FaultyDevice& device) { device.capture_fails = true; });
  EXPECT_THAT(result.totals, ElementsAre(0, 8, 16, 24));
  EXPECT_EQ(result.captures, 1) << "once is enough";
  EXPECT_TRUE(result.launches.empty());
  ASSERT_TRUE(result.use.has_value());
  EXPECT_THAT(result.use->refusal, Optional(HasSubstr("the recorder is out of order")));
  EXPECT_EQ(result.use->graphs, 0U);
}

TEST(StepRunner, SaysWhyADeviceHasNoGraphs) {
  EXPECT_THAT(run<StreamDevice>(1, {}).first_use->refusal, Optional(HasSubstr("the device has no graphs")));
  EXPECT_THAT(run<HostDevice>(1, {}).first_use->refusal, Optional(HasSubstr("host memory")));
}

TEST(StepRunner, AGraphThatFailsIsNamed) {
  try {
    run<FaultyDevice>(4, [](FaultyDevice& device) { device.fails_at_step = 2; });
    FAIL() << "no error";
  } catch (const RuntimeError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0, step 3, "), HasSubstr("'zero'"),
                                    HasSubstr("and 6 more as a graph: the player is out of order")));
  }
}

TEST(StepRunner, CapturesCommunicationWithTheStepWhereTheCommunicatorCan) {
  std::vector<Result> results(2);
  const auto errors = nccl_test::run_processes(2, 60, [&](nccl::NcclWorld& world, int rank) {
    results[static_cast<std::size_t>(rank)] = run<FaultyDevice>(world, 4, {});
  });
  EXPECT_THAT(errors, Each(""));
  for (const Result& result : results) {
    EXPECT_THAT(result.totals, ElementsAre(0, 16, 32, 48));
    EXPECT_THAT(result.launches, ElementsAre(1, 2, 3));
    ASSERT_TRUE(result.use.has_value());
    EXPECT_EQ(result.use->graphs, 1U);
    EXPECT_EQ(result.use->captured, 9U) << "all of them";
    EXPECT_EQ(result.use->communication_outside, std::nullopt);
  }
}

TEST(StepRunner, EndsWhereOneRankCannotCaptureItsEndOfTheCommunication) {
  const auto errors = nccl_test::run_processes(2, 60, [&](nccl::NcclWorld& world, int rank) {
    run<FaultyDevice>(world, 4, [&](FaultyDevice& device) { device.capture_fails = rank == 1; });
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 1, step 2: the step and its communication could not be captured"),
                               HasSubstr("the recorder is out of order")));
  EXPECT_THAT(errors[0], HasSubstr("the recorder is out of order")) << "and does not wait for the other for ever";
}

}  // namespace
}  // namespace strata::host
