// Whole steps as graphs that contain their communication. They train like steps without graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/device_on_streams.hpp"
#include "nccl/nccl_ranks.hpp"
#include "stack_row.hpp"
#include "verify/random_inputs.hpp"
#include "verify/stack_run.hpp"

namespace strata::testing {
namespace {

constexpr int kSteps = 4;

class CommunicationInGraphs : public ::testing::TestWithParam<StackRow> {};

TEST_P(CommunicationInGraphs, TrainsAsWithout) {
  const StackRow& row = GetParam();
  BuiltPlugins plugins;
  const host::RunConfiguration configuration = small_gpt2(row.strategies, row.global_batch, row.micro_batch);
  const host::RunSetup setup = host::prepare(configuration, plugins);
  const host::Compiled compiled = compile_training(configuration, DType::f64);
  ASSERT_EQ(compiled.mesh.rank_count(), row.ranks);
  const auto seed = static_cast<std::uint64_t>(configuration.run.seed);
  const host::StackSettings settings{seed, configuration.optimizer.lr, kSteps};
  host::RandomInputs inputs(seed, setup.inputs, setup.sizes_without_data());

  const std::unique_ptr<World> threads = setup.make_world();
  const host::StackResult expected = host::run_stack(
      compiled, *threads, [&](int rank) { return setup.make_device(rank, row.ranks); }, settings, inputs);

  const auto variants = static_cast<int>(host::step_variants(compiled).variants.size());
  std::vector<host::StackResult> found(static_cast<std::size_t>(row.ranks));
  const nccl_test::Libraries libraries;
  const auto train = [&](nccl::NcclWorld& world, int rank) {
    const auto on_streams = std::make_shared<DeviceOnStreams>(setup.make_device(rank, row.ranks));
    found[static_cast<std::size_t>(rank)] = host::run_stack(
        compiled, world, [&](int) { return on_streams; }, settings, inputs);
    // Each variant of the step is one graph. Its first step is not captured.
    EXPECT_EQ(on_streams->captures, variants);
    if (variants == 1) {
      EXPECT_THAT(on_streams->launches, ::testing::ElementsAre(1, 2, 3));
    } else {
      EXPECT_THAT(on_streams->launches, ::testing::ElementsAre(2, 3));
    }
  };
  ASSERT_THAT(nccl_test::run_processes(row.ranks, 60, train, libraries), ::testing::Each(""));
  EXPECT_EQ(libraries.nccl->setups_beside_kernels(), 0) << "the executor makes its communication ready";
  const host::StackResult& leader = found.front();
  ASSERT_EQ(leader.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(leader.losses[step], expected.losses[step], 1e-11) << "step " << step;
    EXPECT_NEAR(leader.gradient_norms[step], expected.gradient_norms[step], 1e-11) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CommunicationInGraphs,
    ::testing::Values(StackRow{"ddp", table("ddp", 2, "bucket_mb = 0.001\n"), 2, 16},
                      StackRow{"zero_3", table("zero", 2, "stage = 3\n"), 2, 16},
                      StackRow{"local_sgd", table("localsgd", 2, "steps = 2\n"), 2, 16},
                      StackRow{"tensor", table("tensor", 2, kSequenceParallel + "overlap_chunks = 2\n"), 2, 16},
                      StackRow{"ring", table("context", 2), 2, 16},
                      StackRow{"pipeline_and_zero", table("zero", 2, "stage = 2\n") + table("pipeline", 2), 4, 16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
