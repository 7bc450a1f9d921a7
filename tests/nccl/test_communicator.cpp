#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "nccl_ranks.hpp"

namespace strata {
namespace {

using nccl::NcclWorld;
using nccl::Timeouts;
using nccl_test::End;
using nccl_test::Libraries;
using nccl_test::run;
using nccl_test::run_processes;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Resources, AreGivenBack) {
  for (const bool fails : {false, true}) {
    const Libraries libraries;
    {
      NcclWorld world(libraries.load(), 3, Timeouts{3600, 3600});
      (void)run(world, [&](End& end) {
        end.reduce("bucket", 17);
        if (fails && end.rank == 2) return end.communicator.abort("enough");
        if (fails) end.idle();
      });
    }
    EXPECT_EQ(libraries.nccl->live(), 0) << "communicators, " << fails;
    EXPECT_EQ(libraries.gpu->live(), 0) << "streams and events, " << fails;
  }
}

TEST(Resources, AGroupHasOneCommunicatorAndAPairOneForEachDirection) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), 2, Timeouts{60, 60});
  const auto errors = run(world, [](End& end) {
    EXPECT_NE(end.communicator.create_group({0, 1}), end.group);
    EXPECT_NE(end.communicator.create_group({end.rank}), end.group);
    const int peer = 1 - end.rank;
    for (std::uint64_t id = 0; id < 3; ++id) {
      std::vector<double> into(8);
      const auto sent = end.communicator.send({.peer = peer, .data = end.data.data(), .bytes = 64, .id = id});
      end.communicator.receive({.peer = peer, .data = into.data(), .bytes = 64, .id = id})->wait();
      sent->wait();
      end.reduce("bucket", id);
    }
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(libraries.nccl->begun_sizes(), std::vector<int>(6, 2)) << "on each rank: a group, a send, a receive";
}

/// Each rank creates its channels in a different order. NCCL ends a communicator only when all of its ranks end it.
/// Ranks that waited for each other would abort the communicators after a while.
TEST(Resources, AreEndedInAnyOrder) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), 2, Timeouts{60, 60});
  const auto errors = run(world, [&](End& end) {
    const int peer = 1 - end.rank;
    std::vector<double> into(8);
    const auto sent = end.communicator.send({.peer = peer, .data = end.data.data(), .bytes = 64, .id = 1});
    end.communicator.receive({.peer = peer, .data = into.data(), .bytes = 64, .id = 1})->wait();
    sent->wait();
    end.device.synchronize(StreamKind::compute);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(libraries.nccl->aborted(), 0);
}

TEST(Collectives, CarryQuantisedNumbers) {
  std::vector<std::vector<std::int8_t>> gathered(2, std::vector<std::int8_t>(4));
  std::vector<std::vector<std::int8_t>> swapped(2, std::vector<std::int8_t>(2));
  const auto errors = run(2, 60, [&](End& end) {
    const auto rank = static_cast<std::size_t>(end.rank);
    const std::vector<std::int8_t> own{static_cast<std::int8_t>(-end.rank), 127};
    CollectiveCall call{.kind = CollectiveKind::all_gather, .dtype = DType::i8, .group = end.group};
    call.input = own.data();
    call.elements = 2;
    call.output = gathered[rank].data();
    end.communicator.start(call)->wait();
    call.kind = CollectiveKind::all_to_all;
    call.output = swapped[rank].data();
    end.communicator.start(call)->wait();
    end.device.synchronize(StreamKind::compute);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(gathered, Each(::testing::ElementsAre(0, 127, -1, 127)));
  EXPECT_THAT(swapped[0], ::testing::ElementsAre(0, -1));
  EXPECT_THAT(swapped[1], ::testing::ElementsAre(127, 127));
}

TEST(Misuse, IsRefusedAtTheCall) {
  const auto errors = run(1, 0.2, [](End& end) {
    double data = 0;
    EXPECT_THROW((void)end.communicator.create_group({0, 1}), RuntimeError);
    EXPECT_THROW((void)end.start("x", 1, -1), RuntimeError);
    EXPECT_THROW((void)end.communicator.send({.peer = 1, .data = &data, .bytes = 8, .id = 1}), RuntimeError);
    CollectiveCall call{.group = 7};
    EXPECT_THROW((void)end.communicator.start(call), RuntimeError);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Misuse, AMessageToOneselfNeedsBothEnds) {
  const auto errors = run(1, 0.2, [](End& end) {
    end.communicator.receive({.peer = 0, .data = end.data.data(), .bytes = 8, .id = 4})->wait();
  });
  EXPECT_THAT(errors[0], HasSubstr("receive '' (id 4) from rank 0: waited 0.2 s for its other end"));
}

/// Also if the libraries are missing, because a user would install them in vain.
TEST(Connecting, NeedsADeviceWithStreamsOfTheSameRuntime) {
  nccl::BackendLoader loader{"host threads",
                             []() -> nccl::Backend { throw ConfigurationError("library: there is none"); }};
  NcclWorld world(std::move(loader), 1, Timeouts{60, 60});
  testing::HostDevice device;
  try {
    (void)world.connect(0, device);
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'host threads'"), HasSubstr("found the device 'host memory'")));
  }
}

TEST(Connecting, HappensOnceForEveryRank) {
  NcclWorld world(Libraries().load(), 1, Timeouts{60, 60});
  testing::StreamDevice device;
  const auto communicator = world.connect(0, device);
  EXPECT_THROW((void)world.connect(0, device), RuntimeError);
  EXPECT_THROW((void)world.connect(1, device), RuntimeError);
}

TEST(Connecting, LoadsTheLibrariesWhenARankNeedsThem) {
  int loads = 0;
  nccl::BackendLoader loader{"host threads", [&]() -> nccl::Backend {
                               ++loads;
                               throw ConfigurationError("library: there is none");
                             }};
  NcclWorld world(std::move(loader), 2, Timeouts{60, 60});
  EXPECT_EQ(world.rank_count(), 2);
  EXPECT_THAT(world.local_ranks(), ::testing::ElementsAre(0, 1));
  EXPECT_FALSE(world.limits().matches_messages_by_id);
  EXPECT_EQ(loads, 0);
  testing::StreamDevice device;
  EXPECT_THROW((void)world.connect(0, device), ConfigurationError);
  EXPECT_EQ(loads, 1);
}

TEST(Processes, CommunicateAsThreadsDo) {
  const auto errors = run_processes(3, 3600, [](NcclWorld& world, int rank) {
    EXPECT_EQ(world.rank_count(), 3);
    EXPECT_THAT(world.local_ranks(), ::testing::ElementsAre(rank));
    EXPECT_EQ(world.ranks_on_host(), 3);
    EXPECT_EQ(world.index_on_host(rank), rank);
    testing::StreamDevice device;
    const auto communicator = world.connect(rank, device);
    End end(*communicator, device);
    std::fill(end.data.begin(), end.data.end(), 0);
    auto* values = reinterpret_cast<float*>(end.data.data());
    for (int i = 0; i < 8; ++i) values[i] = static_cast<float>(rank * i);
    end.reduce("bucket", 17);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(values[i], static_cast<float>(3 * i));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Processes, HearOfTheFailureOfAnother) {
  const auto errors = run_processes(3, 3600, [](NcclWorld& world, int rank) {
    testing::StreamDevice device;
    if (rank == 2) throw RuntimeError("no such GPU");
    const auto communicator = world.connect(rank, device);
    End end(*communicator, device);
    end.reduce("bucket", 17);
  });
  EXPECT_EQ(errors[2], "no such GPU");
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(errors[rank], AllOf(HasSubstr("stopped because a rank failed"), HasSubstr("rank 2 left before")));
  }
}

}  // namespace
}  // namespace strata
