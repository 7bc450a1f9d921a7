// Memory that the cuda device takes on emulated GPUs besides the plan, and its access to other GPUs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>
#include <vector>

#include "device/cuda_device.hpp"
#include "device/gpus_in_use.hpp"
#include "device/runtime.hpp"
#include "emulator/emulated_gpu.hpp"
#include "strata/error.hpp"
#include "strata/kernel.hpp"

namespace strata::cuda {
namespace {

using emulator::EmulatedGpu;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A device without kernels. These tests prepare none.
std::unique_ptr<Device> make_device(DeviceRequest request, const std::map<std::string, OptionValue>& given = {}) {
  static const KernelRegistry kNoKernels;
  request.kernels = &kNoKernels;
  const CudaDeviceFactory factory;
  return factory.create(Options(factory.options(), given), request);
}

TEST(MemoryShare, LeavesAPartToWhatComesAfterThePlan) {
  const std::int64_t gib = 1024 * kMiB;
  EXPECT_EQ(plannable_bytes(16 * gib, 1, -1), 15 * gib);
  EXPECT_EQ(plannable_bytes(16 * gib, 4, -1), 4 * gib - 256 * kMiB);
  EXPECT_EQ(plannable_bytes(140 * gib, 1, -1), 138 * gib) << "no more than graphs and NCCL can need";
  EXPECT_EQ(plannable_bytes(16 * gib, 1, 0), 16 * gib);
  EXPECT_EQ(plannable_bytes(16 * gib, 2, 300 * kMiB), 8 * gib - 300 * kMiB);
  EXPECT_THAT([&] { static_cast<void>(plannable_bytes(gib, 2, gib / 2)); },
              ThrowsMessage<ConfigurationError>(HasSubstr("'reserve_mb' keeps 536870912 bytes")));
}

TEST(GpusInUse, AreConnectedWithThoseOfTheSameProcess) {
  GpusInUse gpus;
  std::vector<std::pair<int, int>> connections;
  const auto connect = [&](int from, int to) { connections.emplace_back(from, to); };
  gpus.add(3, connect);
  gpus.add(3, connect);
  EXPECT_THAT(connections, IsEmpty());
  gpus.add(1, connect);
  EXPECT_THAT(connections, UnorderedElementsAre(std::pair(1, 3), std::pair(3, 1)));
  connections.clear();
  gpus.add(0, connect);
  gpus.add(1, connect);
  EXPECT_THAT(connections, UnorderedElementsAre(std::pair(0, 1), std::pair(1, 0), std::pair(0, 3), std::pair(3, 0)));
}

TEST(KernelFiles, AreAllKnownByOneKernelEach) {
  const std::vector<const void*> kernels = kernels_of_files();
  EXPECT_GE(kernels.size(), 10U);
  EXPECT_EQ(std::set(kernels.begin(), kernels.end()).size(), kernels.size());
}

/// The rank is the only one of its process. The machine has more GPUs.
TEST(CudaDeviceOfAProcess, TouchesOtherGpusOnlyForItsOwnRanks) {
  const auto first = make_device({.rank = 5, .ranks_on_host = 8, .index_on_host = 5});
  EXPECT_THAT(EmulatedGpu::at(0).reachable(), IsEmpty());
  EXPECT_THAT(EmulatedGpu::at(1).reachable(), IsEmpty());
  const auto second = make_device({.rank = 6, .ranks_on_host = 8, .index_on_host = 6});
  EXPECT_THAT(EmulatedGpu::at(0).reachable(), ElementsAre(1));
  EXPECT_THAT(EmulatedGpu::at(1).reachable(), ElementsAre(0));
}

/// Expects that a kernel and `count` graphs fit beside a plan that takes all memory it may.
void expect_room_for_graphs(std::int64_t reserve_mb, int count) {
  const auto device = make_device({.rank = 0, .ranks_on_host = 1, .index_on_host = 1}, {{"reserve_mb", reserve_mb}});
  const std::shared_ptr<void> arena = device->allocate(device->memory_bytes());
  const auto reduce = [&] {
    const std::array<const void*, 2> sources{arena.get(), arena.get()};
    device->reduce(StreamKind::compute, Reduction::sum, DType::f32, arena.get(), sources, 64);
  };
  ASSERT_NO_THROW(reduce());
  std::vector<std::unique_ptr<StepGraph>> graphs;
  for (int i = 0; i < count; ++i) ASSERT_NO_THROW(graphs.push_back(device->capture(reduce))) << "graph " << i;
}

TEST(CudaDeviceMemory, LeavesRoomForGraphsBesideAPlanThatTakesAll) { expect_room_for_graphs(-1, 64); }

TEST(CudaDeviceMemory, HasItsKernelsBeforeThePlanLearnsHowMuchThereIs) {
  ASSERT_LT(32 * kMiB, EmulatedGpu::kKernelBytes);
  expect_room_for_graphs(32, 32);
}

TEST(CudaDeviceMemory, KeepsWhatTheOptionSaysFromThePlan) {
  const auto all = make_device({}, {{"reserve_mb", std::int64_t{0}}});
  const auto less = make_device({}, {{"reserve_mb", std::int64_t{100}}});
  EXPECT_EQ(all->memory_bytes() - less->memory_bytes(), 100 * kMiB);
  EXPECT_THROW(static_cast<void>(make_device({}, {{"reserve_mb", std::int64_t{4096}}})), ConfigurationError);
}

}  // namespace
}  // namespace strata::cuda
