// Whole steps as graphs that hold their communication: they train as steps do that are launched one by one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/device_on_streams.hpp"
#include "nccl/nccl_ranks.hpp"
#include "stack_configuration.hpp"
#include "train/random_inputs.hpp"
#include "train/run_setup.hpp"
#include "train/stack_run.hpp"

namespace strata::testing {
namespace {

constexpr std::int64_t kVocab = 16;
constexpr int kSteps = 4;

struct GraphCase {
  const char* name;
  int ranks;
  const char* strategies;
};

class CommunicationInGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(CommunicationInGraphs, TrainsAsWithout) {
  const GraphCase& row = GetParam();
  BuiltPlugins plugins;
  const host::RunSetup setup = host::prepare(small_gpt2(row.strategies, 16, 2), plugins);
  ASSERT_EQ(setup.mesh.rank_count(), row.ranks);
  host::CompileRequest request = setup.request(GraphMode::training, kVocab);
  request.float_type = DType::f64;
  const std::unique_ptr<Device> device = setup.make_device(0, row.ranks);
  request.device = device.get();
  const host::Compiled compiled = setup.compile(request);
  const host::StackSettings settings{request.seed, setup.configuration.optimizer.lr, kSteps};
  host::RandomInputs inputs(request.seed, kVocab);

  const std::unique_ptr<World> threads = setup.make_world();
  const host::StackResult expected = host::run_stack(
      compiled, *threads, [&](int rank) { return setup.make_device(rank, row.ranks); }, settings, inputs);

  std::vector<host::StackResult> found(static_cast<std::size_t>(row.ranks));
  const auto errors = nccl_test::run_processes(row.ranks, 60, [&](nccl::NcclWorld& world, int rank) {
    const auto on_streams = std::make_shared<DeviceOnStreams>(setup.make_device(rank, row.ranks));
    found[static_cast<std::size_t>(rank)] = host::run_stack(
        compiled, world, [&](int) { return on_streams; }, settings, inputs);
    EXPECT_EQ(on_streams->captures, 1) << "the whole step is one graph";
    EXPECT_EQ(on_streams->graph_launches, kSteps - 1);
  });
  ASSERT_THAT(errors, ::testing::Each(""));
  const host::StackResult& leader = found.front();
  ASSERT_EQ(leader.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(leader.losses[step], expected.losses[step], 1e-11) << "step " << step;
    EXPECT_NEAR(leader.gradient_norms[step], expected.gradient_norms[step], 1e-11) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CommunicationInGraphs,
    ::testing::Values(GraphCase{"ddp", 2, "[[strategy]]\nplugin = \"ddp\"\nsize = 2\nbucket_mb = 0.001\n"},
                      GraphCase{"zero_3", 2, "[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 3\n"},
                      GraphCase{"tensor", 2,
                                "[[strategy]]\nplugin = \"tensor\"\nsize = 2\nsequence_parallel = true\n"
                                "overlap_chunks = 2\n"},
                      GraphCase{"ring", 2, "[[strategy]]\nplugin = \"context\"\nsize = 2\n"},
                      GraphCase{"pipeline_and_zero", 4,
                                "[[strategy]]\nplugin = \"zero\"\nsize = 2\nstage = 2\n[[strategy]]\n"
                                "plugin = \"pipeline\"\nsize = 2\n"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
