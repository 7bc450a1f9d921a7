/// \file
/// The cases of the conformance kit, for each communicator on devices with and without streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/ranks.hpp"
#include "conformance/communicator_bench.hpp"

namespace strata {
namespace {

using testing::DeviceKind;

host::CommunicatorBench bench_of(DeviceKind kind, double timeout = 60) {
  return {
      [kind, timeout](int ranks) { return testing::make_world(kind, ranks, timeout); },
      [kind](int /*rank*/, const World& /*world*/) -> std::shared_ptr<Device> { return testing::make_device(kind); }};
}

class Collectives : public ::testing::TestWithParam<std::tuple<DeviceKind, int>> {};

TEST_P(Collectives, GiveEveryRankItsPart) {
  const auto [kind, ranks] = GetParam();
  EXPECT_NO_THROW(host::try_collectives(bench_of(kind), ranks));
  EXPECT_NO_THROW(host::try_marked_rows(bench_of(kind), ranks, {{3, 5}, {40, 64}, {1, 3000}}));
}

INSTANTIATE_TEST_SUITE_P(Host, Collectives,
                         ::testing::Combine(::testing::Values(DeviceKind::host), ::testing::Range(1, 6)));
INSTANTIATE_TEST_SUITE_P(Streams, Collectives,
                         ::testing::Combine(::testing::Values(DeviceKind::streams), ::testing::Values(3)));
INSTANTIATE_TEST_SUITE_P(Nccl, Collectives,
                         ::testing::Combine(::testing::Values(DeviceKind::nccl), ::testing::Values(1, 3)));

class OnDevices : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(OnDevices, GroupsFollowTheirOrder) { EXPECT_NO_THROW(host::try_groups(bench_of(GetParam()))); }

TEST_P(OnDevices, MessagesArrive) { EXPECT_NO_THROW(host::try_messages(bench_of(GetParam()))); }

INSTANTIATE_TEST_SUITE_P(Devices, OnDevices, ::testing::Values(DeviceKind::host, DeviceKind::streams, DeviceKind::nccl),
                         [](const auto& info) { return testing::to_string(info.param); });

class Interleaving : public ::testing::TestWithParam<std::tuple<DeviceKind, int>> {};

TEST_P(Interleaving, GivesRightValuesInAnyOrderOfEvents) {
  const auto [kind, seed] = GetParam();
  EXPECT_NO_THROW(host::try_interleaving(bench_of(kind), static_cast<std::uint32_t>(seed)));
}

INSTANTIATE_TEST_SUITE_P(Host, Interleaving,
                         ::testing::Combine(::testing::Values(DeviceKind::host), ::testing::Range(0, 12)));
INSTANTIATE_TEST_SUITE_P(Streams, Interleaving,
                         ::testing::Combine(::testing::Values(DeviceKind::streams), ::testing::Range(0, 3)));
INSTANTIATE_TEST_SUITE_P(Nccl, Interleaving,
                         ::testing::Combine(::testing::Values(DeviceKind::nccl), ::testing::Range(0, 3)));

class Aborts : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(Aborts, AtAnyMomentEndEveryRank) { EXPECT_NO_THROW(host::try_abort(bench_of(GetParam(), 3600), 30)); }

INSTANTIATE_TEST_SUITE_P(Devices, Aborts, ::testing::Values(DeviceKind::host, DeviceKind::nccl),
                         [](const auto& info) { return testing::to_string(info.param); });

/// In f32, 2^24 + 1 - 2^24 is 0 in the order of ranks and 1 in another order.
TEST(LocalReductions, AddInTheOrderOfRanks) {
  const float values[] = {0x1p24F, 1, -0x1p24F};
  std::vector<float> results(3, 9);
  const auto errors =
      testing::run_ranks(3, 60, DeviceKind::host, [&](Communicator& communicator, testing::HostDevice& /*device*/) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        CollectiveCall call{.group = communicator.create_group(testing::all_ranks(3))};
        call.input = &values[rank];
        call.output = &results[rank];
        call.elements = 1;
        communicator.start(call)->wait();
      });
  EXPECT_THAT(errors, ::testing::Each(""));
  EXPECT_THAT(results, ::testing::Each(0.0F));
}

}  // namespace
}  // namespace strata
