// Communication in graphs: repeated launches give the same results as runs without graphs, and errors are reported in
// the same way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "communicator/graph_device.hpp"
#include "nccl_ranks.hpp"

namespace strata {
namespace {

using nccl::NcclWorld;
using nccl_test::run_processes;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using testing::GraphDevice;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int kRanks = 3;
constexpr std::size_t kCount = 8;

/// A rank that sums `own` over the ranks and sends the sum to the next rank.
class Rank {
 public:
  explicit Rank(NcclWorld& world, int rank) : communicator_(world.connect(rank, device_)) {
    group_ = communicator_->create_group(testing::all_ranks(kRanks));
  }

  /// Runs once without a graph, which creates communicators, as happens before any capture.
  void prepare() {
    play();
    finish();
  }
  void capture() {
    try {
      graph_ = device_.capture([this] { captured_ = communicator_->capture([this] { play(); }); });
    } catch (const std::exception&) {
      // Report the failure of the communication first, because it may have ended the capture.
      communicator_->check();
      throw;
    }
  }
  void launch() {
    graph_->launch({});
    captured_->launched();
  }
  void finish() {
    device_.synchronize(StreamKind::compute);
    communicator_->check();
  }

  void play() {
    const int rank = communicator_->rank();
    CollectiveCall call{.dtype = DType::f64, .group = group_, .input = own.data(), .output = sum_.data()};
    call.elements = kCount;
    call.id = 1;
    call.name = &sum_name_;
    const auto reduction = communicator_->start(call);
    // This copy overlaps with the communication.
    device_.copy(StreamKind::compute, copied.data(), own.data(), kBytes);
    reduction->wait();
    device_.enqueue(StreamKind::compute, [this] {
      while (is_stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const auto sent = communicator_->send(
        {.peer = (rank + 1) % kRanks, .data = sum_.data(), .bytes = kBytes, .id = 2, .name = &message_name_});
    const auto received = communicator_->receive({.peer = (rank + kRanks - 1) % kRanks,
                                                  .data = result.data(),
                                                  .bytes = kBytes,
                                                  .id = 2,
                                                  .name = &message_name_});
    received->wait();
    sent->wait();
    // A group with this rank alone.
    call.group = communicator_->create_group({rank});
    call.input = result.data();
    call.output = result.data();
    communicator_->start(call)->wait();
  }

  [[nodiscard]] Communicator& communicator() { return *communicator_; }

  /// If true, the rank's own work between the sum and the message does not end.
  std::atomic<bool> is_stuck = false;
  std::vector<double> own = std::vector<double>(kCount);
  std::vector<double> result = std::vector<double>(kCount);
  std::vector<double> copied = std::vector<double>(kCount);

 private:
  static constexpr std::int64_t kBytes = kCount * sizeof(double);

  std::vector<double> sum_ = std::vector<double>(kCount);
  std::string sum_name_ = "sum";
  std::string message_name_ = "passed on";
  GraphDevice device_;
  std::unique_ptr<Communicator> communicator_;
  int group_ = -1;
  std::unique_ptr<CapturedCommunication> captured_;
  std::unique_ptr<StepGraph> graph_;
};

TEST(Capture, IsLaunchedWithWhatIsInMemoryThen) {
  const auto errors = run_processes(kRanks, 60, [](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    rank.capture();
    for (int launch = 0; launch < 20; ++launch) {
      std::fill(rank.own.begin(), rank.own.end(), number + 10 * launch);
      rank.launch();
      rank.finish();
      EXPECT_THAT(rank.result, Each(3 + 30 * launch)) << "launch " << launch;
      EXPECT_THAT(rank.copied, Each(number + 10 * launch));
      // Communication outside of the graph continues to work.
      if (launch % 5 == 0) rank.prepare();
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Capture, DoesNothingUntilItIsLaunched) {
  const auto errors = run_processes(kRanks, 60, [](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    std::fill(rank.own.begin(), rank.own.end(), 1);
    rank.capture();
    rank.finish();
    EXPECT_THAT(rank.result, Each(0));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Capture, ALaunchThatARankDoesNotJoinIsNamedAfterTheTimeout) {
  std::vector<int> launches(kRanks);
  const auto errors = run_processes(kRanks, 2, [&](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    rank.capture();
    for (int launch = 0; launch < 3; ++launch) {
      // The launches together take longer than the timeout, which applies to each launch.
      std::this_thread::sleep_for(std::chrono::milliseconds(1000));
      rank.launch();
      rank.finish();
      ++launches[static_cast<std::size_t>(number)];
    }
    if (number != 1) rank.launch();
    while (true) rank.finish();
  });
  EXPECT_THAT(launches, Each(3));
  EXPECT_THAT(errors, Contains(HasSubstr("all_reduce 'sum' (id 1): waited 2 s for the other ranks of [0, 1, 2]")));
  EXPECT_THAT(errors, Each(HasSubstr("waited 2 s")));
}

TEST(Capture, NamesTheCommunicationThatALaunchHasComeTo) {
  std::atomic<int> failures = 0;
  const auto errors = run_processes(kRanks, 2, [&](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    rank.capture();
    for (int launch = 0; launch < 3; ++launch) {
      rank.launch();
      rank.finish();
    }
    rank.is_stuck = number == 1;
    rank.launch();
    try {
      while (number == 1 && failures < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rank.is_stuck = false;
      while (true) rank.finish();
    } catch (...) {
      ++failures;
      throw;
    }
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("'passed on' (id 2)"), HasSubstr("waited 2 s for rank"))));
  EXPECT_THAT(errors, Each(::testing::Not(HasSubstr("'sum'"))));
}

TEST(Capture, LaunchesWithoutAPauseDoNotRunIntoTheTimeout) {
  // All of them together take longer than the timeout, even on an idle machine.
  const auto errors = run_processes(kRanks, 1, [](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    rank.capture();
    // Every rank launches equally often.
    for (int launch = 0; launch < 4000; ++launch) rank.launch();
    rank.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Capture, AnAbortEndsALaunchThatWaits) {
  const auto errors = run_processes(kRanks, 3600, [](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    rank.capture();
    if (number == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      rank.communicator().abort("the disk is full");
      throw RuntimeError("the root cause");
    }
    rank.launch();
    while (true) rank.finish();
  });
  EXPECT_EQ(errors[1], "the root cause");
  for (const std::size_t other : {0U, 2U}) EXPECT_THAT(errors[other], HasSubstr("the disk is full"));
}

TEST(Capture, AnAbortEndsACapture) {
  const auto errors = run_processes(kRanks, 3600, [](NcclWorld& world, int number) {
    Rank rank(world, number);
    rank.prepare();
    if (number == 1) return rank.communicator().abort("the disk is full");
    while (true) rank.capture();
  });
  for (const std::size_t other : {0U, 2U}) EXPECT_THAT(errors[other], HasSubstr("the disk is full"));
}

TEST(Capture, IsRefusedWhereRanksAreThreads) {
  const auto errors = nccl_test::run(2, 60, [](nccl_test::End& end) {
    EXPECT_THAT(end.communicator.uncapturable(), Optional(HasSubstr("'strata launch' gives each its own")));
    EXPECT_THROW(static_cast<void>(end.communicator.capture([] {})), RuntimeError);
    end.reduce("afterwards", 1);
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace strata
