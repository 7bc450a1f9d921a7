#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include "checkpoint/checkpoint_plan.hpp"
#include "stacks/stack_configuration.hpp"
#include "train/training_programs.hpp"

/// \file
/// Ranks that differ only in their shards are looked at once. So more of them cost nothing, up to tables of numbers.

namespace {

std::atomic<std::int64_t> allocation_count{0};

}  // namespace

// Every object of the host and of the plugins comes from here.
void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace strata::host {
namespace {

/// What grows: a strategy that has `replicas` ranks, beside a pipeline and tensor parallelism.
std::string stack(const std::string& plugin, int replicas, const std::string& options) {
  return "[[strategy]]\nplugin = \"" + plugin + "\"\nsize = " + std::to_string(replicas) + "\n" + options + R"(
[[strategy]]
plugin = "pipeline"
size = 2
[[strategy]]
plugin = "tensor"
size = 2
)";
}

/// Allocations of everything that `strata check` does after it has read the configuration.
std::int64_t count_allocations(const std::string& strategies, int replicas, PluginRegistry& plugins) {
  const RunSetup setup = prepare(testing::small_gpt2(strategies, 2 * replicas, 1), plugins, nullptr);
  const auto device = setup.make_device(0, setup.stack.mesh.rank_count());
  const DimSizes sizes = setup.sizes_without_data();
  const std::int64_t before = allocation_count;
  const TrainingPrograms programs = compile_training(setup, sizes, device.get());
  const auto copies = planned_copies(CheckpointPlan(rank_programs(programs.training)), true);
  EXPECT_EQ(copies.size(), programs.planned_peak_bytes().size());
  const CommunicatorLimits limits = setup.limits(*setup.make_world());
  EXPECT_EQ(find_fault(programs, limits, std::numeric_limits<std::int64_t>::max()), std::nullopt);
  return allocation_count - before;
}

struct Row {
  const char* name;
  const char* plugin;
  const char* options;
};

class Growth : public ::testing::TestWithParam<Row> {};

TEST_P(Growth, OfReplicasCostsNothing) {
  testing::BuiltPlugins plugins;
  const auto count = [&](int replicas) {
    return count_allocations(stack(GetParam().plugin, replicas, GetParam().options), replicas, plugins);
  };
  // With fewer replicas than tensors, the writing of each tensor is dealt anew.
  const std::int64_t few = count(128);
  const std::int64_t many = count(2048);
  EXPECT_GT(few, 10'000);
  // Larger buckets are packed in other ways. One allocation for each of the added replicas would be 1920 more.
  EXPECT_LT(many - few, 1500);
}

INSTANTIATE_TEST_SUITE_P(Rows, Growth,
                         ::testing::Values(Row{"ddp", "ddp", ""}, Row{"zero_1", "zero", "stage = 1\n"},
                                           Row{"zero_3", "zero", "stage = 3\n"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::host
