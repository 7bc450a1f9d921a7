// The watch over launches of a graph by the marks that they set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "nccl/lane.hpp"
#include "nccl_ranks.hpp"
#include "rendezvous/store.hpp"
#include "strata/error.hpp"

namespace strata::nccl {
namespace {

using std::chrono::milliseconds;
using testing::FakeGpuRuntime;
using testing::FakeNccl;
using ::testing::HasSubstr;
using testing::HostStream;
using ::testing::ThrowsMessage;

constexpr std::chrono::duration<double> kTimeout{1.5};

class GraphWatchTest : public ::testing::Test {
 protected:
  GraphWatchTest() {
    for (const int rank : {0, 1}) {
      links_.push_back(std::make_shared<Link>(nccl_, store_, std::vector<int>{0, 1}, rank, "pair"));
    }
    for (bool connected = false; !connected;) {
      const bool first = links_[0]->advance(0);
      connected = links_[1]->advance(0) && first;
    }
    CollectiveCall call;
    call.elements = 1;
    call.id = 7;
    call.name = &name_;
    operation_ = std::make_shared<Operation>(0, call);
    operation_->link = links_[0];
    operation_->launched = true;
    operation_->marks = marks_.take();
    graph_ = std::make_shared<Operations>(Operations{operation_});
  }

  void TearDown() override { is_over_ = true; }

  /// Enqueues a launch that does not end before end_launch().
  void launch() {
    stream_.push([this] {
      while (!is_over_ && !gate_.exchange(false)) std::this_thread::sleep_for(milliseconds(1));
    });
    ends_.push_back(events_->record(&stream_));
    watch_.launched(graph_, ends_.back());
  }
  /// Ends the first launch that has not ended.
  void end_launch() {
    gate_ = true;
    while (!gpu_->is_reached(ends_.front().get())) std::this_thread::sleep_for(milliseconds(1));
    ends_.pop_front();
  }
  void mark(bool begun, bool ended) {
    *operation_->marks->begun = begun ? 1 : 0;
    *operation_->marks->ended = ended ? 1 : 0;
  }
  /// Sleeps for a part of the timeout.
  static void pass_time() { std::this_thread::sleep_for(milliseconds(1000)); }

  std::string name_ = "sum";
  std::shared_ptr<FakeNccl> nccl_ = std::make_shared<FakeNccl>();
  std::shared_ptr<FakeGpuRuntime> gpu_ = std::make_shared<FakeGpuRuntime>();
  std::shared_ptr<rendezvous::Store> store_ = std::make_shared<rendezvous::Board>();
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>(gpu_);
  std::vector<std::shared_ptr<Link>> links_;
  GraphMarks marks_{*gpu_};
  OperationPointer operation_;
  std::shared_ptr<Operations> graph_;
  GraphWatch watch_{gpu_, kTimeout};
  std::deque<EventPointer> ends_;
  std::atomic<bool> gate_ = false;
  std::atomic<bool> is_over_ = false;
  HostStream stream_;
};

TEST_F(GraphWatchTest, NamesWhatIsBegunAndDoesNotEnd) {
  launch();
  mark(true, false);
  EXPECT_EQ(watch_.advance(), Activity::running);
  pass_time();
  EXPECT_EQ(watch_.advance(), Activity::running);
  pass_time();
  EXPECT_THAT([&] { static_cast<void>(watch_.advance()); },
              ThrowsMessage<RuntimeError>(HasSubstr("all_reduce 'sum' (id 7): waited 1.5 s for the other ranks")));
  end_launch();
}

TEST_F(GraphWatchTest, GivesEachLaunchItsOwnTime) {
  launch();
  launch();
  // Each poll sees the communication running.
  mark(true, false);
  EXPECT_EQ(watch_.advance(), Activity::running);
  pass_time();
  end_launch();
  EXPECT_EQ(watch_.advance(), Activity::running);
  pass_time();
  EXPECT_EQ(watch_.advance(), Activity::running);
  end_launch();
  EXPECT_EQ(watch_.advance(), Activity::idle);
}

TEST_F(GraphWatchTest, DoesNotCountTheTimeBeforeACommunicationAndBehindIt) {
  for (const bool has_run : {false, true}) {
    launch();
    mark(has_run, has_run);
    EXPECT_EQ(watch_.advance(), Activity::running);
    pass_time();
    EXPECT_EQ(watch_.advance(), Activity::running);
    pass_time();
    EXPECT_EQ(watch_.advance(), Activity::running);
    end_launch();
    EXPECT_EQ(watch_.advance(), Activity::idle);
    EXPECT_TRUE(watch_.is_empty());
  }
}

TEST_F(GraphWatchTest, TellsErrorsOfNcclInTheNameOfWhatRuns) {
  launch();
  nccl_->break_communicators("a cable is out");
  EXPECT_EQ(watch_.advance(), Activity::running) << "nothing of NCCL runs";
  mark(true, false);
  EXPECT_THAT([&] { static_cast<void>(watch_.advance()); },
              ThrowsMessage<RuntimeError>(HasSubstr("all_reduce 'sum' (id 7): a cable is out")));
  end_launch();
}

}  // namespace
}  // namespace strata::nccl
