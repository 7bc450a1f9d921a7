#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "communicator/host_device.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using strata::testing::HostDevice;

std::shared_ptr<Device> make_device(int) { return std::make_shared<HostDevice>(); }

void wait_for_everyone(Communicator& communicator) {
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator.rank_count(); ++rank) ranks.push_back(rank);
  double value = 0;
  const int group = communicator.create_group(ranks);
  communicator.start({.dtype = DType::f64, .group = group, .input = &value, .output = &value, .elements = 1})->wait();
}

std::string error_of(const MakeDevice& devices, const RankBody& body) {
  local::LocalWorld world(4, 3600);
  try {
    run_rank_threads(world, devices, body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RankThreads, RunEveryRank) {
  std::atomic<int> ranks{0};
  EXPECT_EQ(error_of(make_device,
                     [&](Device&, Communicator& communicator) {
                       ranks += 1 << communicator.rank();
                       wait_for_everyone(communicator);
                     }),
            "");
  EXPECT_EQ(ranks, 15);
}

TEST(RankThreads, TellTheRootCauseAndStopTheOthers) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(error_of(make_device,
                       [&](Device&, Communicator& communicator) {
                         if (communicator.rank() == 2) throw RuntimeError("the disk is full");
                         wait_for_everyone(communicator);
                       }),
              "the disk is full");
  }
}

TEST(RankThreads, TellWhichRankIsStuckAfterAFailure) {
  std::atomic<bool> is_released{false};
  std::string report;
  // A kernel that does not return: the failure of rank 2 does not reach rank 1.
  const RankBody body = [&](Device&, Communicator& communicator) {
    if (communicator.rank() == 2) throw RuntimeError("rank 1 did not answer");
    while (communicator.rank() == 1 && !is_released) std::this_thread::yield();
  };
  const StuckRanks stuck{std::chrono::seconds(2), [&](const std::string& text) {
                           report = text;
                           is_released = true;
                         }};
  local::LocalWorld world(4, 3600);
  EXPECT_THROW(run_rank_threads(world, make_device, body, stuck), RuntimeError);
  EXPECT_EQ(report, "rank 1 did not answer; stuck, and so ended by force: rank 1");
}

TEST(RankThreads, CanBeStoppedFromOutside) {
  StopRanks stop;
  std::vector<bool> can_stop;
  const auto stoppable = [&](const StopRanks& given) {
    stop = given;
    can_stop.push_back(given != nullptr);
  };
  local::LocalWorld world(3, 3600);
  const RankBody body = [&](Device&, Communicator& communicator) {
    if (communicator.rank() == 1) stop("nobody gets on", std::chrono::seconds(60));
    wait_for_everyone(communicator);
  };
  try {
    run_rank_threads(world, make_device, body, {}, {.stoppable = stoppable});
    FAIL() << "no error";
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "nobody gets on");
  }
  EXPECT_EQ(can_stop, (std::vector<bool>{true, false}));
}

TEST(RankThreads, StopTheOthersWhenARankCannotEvenConnect) {
  const MakeDevice devices = [](int rank) {
    if (rank == 3) throw RuntimeError("no memory");
    return make_device(rank);
  };
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(error_of(devices, [](Device&, Communicator& communicator) { wait_for_everyone(communicator); }),
              "no memory");
  }
}

/// A faulty communicator plugin.
class WorldWithoutCommunicators final : public World {
 public:
  [[nodiscard]] int rank_count() const override { return 2; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return {1}; }
  [[nodiscard]] CommunicatorLimits limits() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int /*rank*/, Device& /*device*/) override { return nullptr; }
};

TEST(RankThreads, ACommunicatorThatIsNotThereIsNoticed) {
  WorldWithoutCommunicators world;
  try {
    run_rank_threads(world, make_device, [](Device&, Communicator&) { ADD_FAILURE() << "runs"; });
    FAIL() << "no error";
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "the communicator connects rank 1 to nothing (a null pointer)");
  }
}

TEST(RankThreads, PassOnAnyException) {
  EXPECT_THAT(error_of(make_device,
                       [](Device&, Communicator& communicator) {
                         if (communicator.rank() == 1) throw std::length_error("too long");
                         wait_for_everyone(communicator);
                       }),
              "too long");
  local::LocalWorld world(2, 3600);
  EXPECT_THROW(run_rank_threads(world, make_device,
                                [](Device&, Communicator& communicator) {
                                  if (communicator.rank() == 1) throw 42;
                                  wait_for_everyone(communicator);
                                }),
               int);
}

}  // namespace
}  // namespace strata::host
