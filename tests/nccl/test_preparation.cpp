// The set-up before the first step, after which a step sets nothing up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "nccl_ranks.hpp"

namespace strata {
namespace {

using nccl::NcclWorld;
using nccl::Timeouts;
using nccl_test::End;
using nccl_test::Libraries;
using nccl_test::run;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kWorldSize = 4;

/// A rank of a pipeline over all ranks. Pairs of neighbours also reduce.
class Stage {
 public:
  explicit Stage(End& end) : end_(end) {
    const int first = end.rank / 2 * 2;
    pair_ = end.communicator.create_group({first, first + 1});
    plan_.collectives = {{end.group, CollectiveKind::all_reduce},
                         {end.group, CollectiveKind::all_to_all},
                         {pair_, CollectiveKind::reduce_scatter},
                         {pair_, CollectiveKind::all_gather}};
    if (end.rank > 0) plan_.receives_from.insert({end.rank - 1, 0});
    if (end.rank > 0) plan_.sends_to.insert({end.rank - 1, 0});
    if (end.rank + 1 < kWorldSize) plan_.sends_to.insert({end.rank + 1, 0});
    if (end.rank + 1 < kWorldSize) plan_.receives_from.insert({end.rank + 1, 0});
  }

  void make_ready() { end_.communicator.make_ready(plan_); }

  /// Starts all communication of the plan at once: messages in both directions, then collectives of both groups.
  void step() {
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<std::vector<double>> arrays(16, std::vector<double>(kWorldSize));
    std::size_t next = 0;
    const auto array = [&] { return arrays[next++].data(); };
    for (const auto& [peer, channel] : plan_.sends_to) {
      requests.push_back(
          end_.communicator.send({.peer = peer, .channel = channel, .data = array(), .bytes = 8, .id = 1}));
    }
    for (const auto& [peer, channel] : plan_.receives_from) {
      requests.push_back(
          end_.communicator.receive({.peer = peer, .channel = channel, .data = array(), .bytes = 8, .id = 1}));
    }
    for (const CommunicationPlan::Collective& each : plan_.collectives) {
      CollectiveCall call{.kind = each.kind, .dtype = DType::f64, .group = each.group};
      call.input = array();
      call.output = array();
      call.elements = each.kind == CollectiveKind::all_gather ? 1 : kWorldSize;
      requests.push_back(end_.communicator.start(call));
    }
    for (const auto& request : requests) request->wait();
    end_.device.synchronize(StreamKind::compute);
    end_.communicator.check();
  }

 private:
  End& end_;
  int pair_ = -1;
  CommunicationPlan plan_;
};

TEST(Preparation, LeavesNothingToSetUpInAStep) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), kWorldSize, Timeouts{60, 60});
  std::atomic<int> ready = 0;
  const auto errors = run(world, [&](End& end) {
    Stage stage(end);
    stage.make_ready();
    ++ready;
    while (ready < kWorldSize) std::this_thread::yield();
    const int setups = libraries.nccl->setups();
    EXPECT_GT(setups, 0);
    for (int step = 0; step < 5; ++step) stage.step();
    EXPECT_EQ(libraries.nccl->setups(), setups);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(libraries.nccl->setups_beside_kernels(), 0);
}

TEST(Preparation, IsNeededWhereMessagesWaitForEachOther) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), kWorldSize, Timeouts{60, 60});
  const auto errors = run(world, [&](End& end) {
    // Ranks whose sends wait for a late rank set up the rest in the meantime.
    if (end.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Stage(end).step();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_GT(libraries.nccl->setups_beside_kernels(), 0);
}

TEST(Preparation, SetsUpOnceWhatSeveralProgramsUse) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), kWorldSize, Timeouts{60, 60});
  std::atomic<int> ready = 0;
  const auto errors = run(world, [&](End& end) {
    Stage stage(end);
    stage.make_ready();
    ++ready;
    while (ready < kWorldSize) std::this_thread::yield();
    const int setups = libraries.nccl->setups();
    stage.make_ready();
    stage.step();
    EXPECT_EQ(libraries.nccl->setups(), setups);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Preparation, LetsKernelsOfAllLinksRunAtTheSameTime) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), kWorldSize, Timeouts{60, 60});
  const auto errors = run(world, [](End& end) { Stage(end).make_ready(); });
  EXPECT_THAT(errors, Each(""));
  // Ranks in the middle have two groups, and messages to and from two ranks. All ranks use their share of blocks.
  EXPECT_THAT(libraries.nccl->begun_blocks(), Each(testing::FakeGpuRuntime::kMultiprocessors / 6));
}

/// With more streams than connections, two links would wait for each other in the order of one rank.
TEST(Preparation, RefusesMoreLinksThanConnections) {
  const auto prepare = [](int channels) {
    return run(2, 60, [channels](End& end) {
      CommunicationPlan plan;
      for (int channel = 0; channel < channels; ++channel) {
        (end.rank == 0 ? plan.sends_to : plan.receives_from).insert({1 - end.rank, channel});
      }
      end.communicator.make_ready(plan);
    });
  };
  // One link is the group of all ranks, and three streams are no links.
  constexpr int kMost = testing::FakeGpuRuntime::kConnections - 4;
  EXPECT_THAT(prepare(kMost), Each(""));
  EXPECT_THAT(prepare(kMost + 1), Each(AllOf(HasSubstr("need 30 NCCL communicators"), HasSubstr("32 connections"))));
}

TEST(Preparation, NamesTheRankThatDoesNotCome) {
  const auto errors = run(kWorldSize, 0.5, [](End& end) {
    if (end.rank == 2) end.idle();
    Stage(end).make_ready();
  });
  EXPECT_THAT(errors, Each(AnyOf(HasSubstr("rank 2"), HasSubstr("rank 0"))));
  EXPECT_THAT(errors[0], AllOf(HasSubstr("preparation 0"), HasSubstr("waited 0.5 s"), HasSubstr("rank 2")));
}

TEST(Preparation, OfOneRankIsNothing) {
  const auto errors = run(1, 60, [](End& end) {
    CommunicationPlan plan;
    plan.collectives = {{end.group, CollectiveKind::all_reduce}};
    end.communicator.make_ready(plan);
    end.reduce("alone", 1);
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace strata
