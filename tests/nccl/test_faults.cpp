#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nccl_ranks.hpp"

namespace strata {
namespace {

using nccl::NcclWorld;
using nccl::Timeouts;
using nccl_test::End;
using nccl_test::Libraries;
using nccl_test::run;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Timeout, NamesRankInstructionAndCollective) {
  const auto errors = run(3, 0.3, [](End& end) {
    if (end.rank == 1) end.idle();
    end.reduce("bucket 3", 17);
  });
  const std::string why = ": all_reduce 'bucket 3' (id 17): waited 0.3 s for the other ranks of [0, 1, 2]";
  EXPECT_THAT(errors, ::testing::Contains(AllOf(HasSubstr(why), ::testing::Not(StartsWith("aborted")))));
  EXPECT_THAT(errors[1], AllOf(StartsWith("aborted: rank 1: stopped because a rank failed: rank "), HasSubstr(why)));
}

TEST(Timeout, NamesThePeerOfAMessage) {
  const std::string name = "activations";
  const auto errors = run(2, 0.3, [&](End& end) {
    if (end.rank == 1) end.idle();
    end.communicator.receive({.peer = 1, .data = end.data.data(), .bytes = 8, .id = 4, .name = &name})->wait();
  });
  EXPECT_THAT(errors[0], StartsWith("rank 0: receive 'activations' (id 4) from rank 1: waited 0.3 s for rank 1, to "
                                    "whom no connection was established"));
}

TEST(Timeout, EndsWhatRunsOnTheGpuAndIsFoundByCheck) {
  std::string waited;
  const auto errors = run(2, 1, [&](End& end) {
    end.reduce("first", 1);
    if (end.rank == 1) end.idle();
    // This operation is on its stream at once and waits for rank 1 forever.
    end.start("second", 2)->wait();
    waited = "yes";
    end.device.synchronize(StreamKind::compute);
    end.communicator.check();
  });
  EXPECT_EQ(waited, "yes") << "a wait does not stop the host";
  EXPECT_THAT(errors[0], AllOf(StartsWith("rank 0: "), HasSubstr("all_reduce 'second' (id 2): waited 1 s")));
  EXPECT_THAT(errors[0], ::testing::Not(HasSubstr("no connection")));
  EXPECT_THAT(errors[1], StartsWith("aborted: "));
}

TEST(Timeout, DoesNotRunWhileARankComputes) {
  const auto errors = run(2, 1, [](End& end) {
    auto& device = dynamic_cast<testing::StreamDevice&>(end.device);
    device.enqueue(StreamKind::compute, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); });
    end.reduce("bucket", 17);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Errors, OfNcclNameTheCommunication) {
  const Libraries libraries;
  NcclWorld world(libraries.load(), 2, Timeouts{3600, 3600});
  const auto errors = run(world, [&](End& end) {
    end.reduce("first", 1);
    if (end.rank == 1) end.idle();
    const auto request = end.start("second", 2);
    request->wait();
    libraries.nccl->break_communicators("remote process exited or there was a network error");
    end.device.synchronize(StreamKind::compute);
    end.communicator.check();
  });
  EXPECT_THAT(errors, ::testing::Contains(HasSubstr("all_reduce 'second' (id 2): remote process exited")));
  EXPECT_THAT(errors, Each(HasSubstr("remote process exited")));
  EXPECT_EQ(libraries.nccl->live(), 0);
}

TEST(Errors, OfOneRankEndTheOthers) {
  const auto errors = run(2, 3600, [](End& end) { end.reduce("bucket", 17, end.rank == 1 ? 9 : 8); });
  EXPECT_THAT(errors, Each(HasSubstr("the ranks do not mean the same")));
}

TEST(Abort, EndsEveryWait) {
  const auto errors = run(4, 3600, [](End& end) {
    const MessageCall message{.peer = 3, .data = end.data.data(), .bytes = 8, .id = 4};
    if (end.rank == 0) end.reduce("bucket", 17);
    if (end.rank == 1) end.communicator.receive(message)->wait();
    if (end.rank == 2) end.communicator.send(message)->wait();
    if (end.rank == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      end.communicator.abort("the disk is full");
      throw RuntimeError("the root cause");
    }
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(errors[rank],
                AllOf(StartsWith("aborted: rank " + std::to_string(rank)), HasSubstr("the disk is full")));
  }
  EXPECT_EQ(errors[3], "the root cause");
}

TEST(Abort, RefusesWhatComesLater) {
  const auto errors = run(1, 3600, [](End& end) {
    end.communicator.abort("reason");
    end.reduce("bucket", 17);
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("aborted: "), HasSubstr("reason")));
}

}  // namespace
}  // namespace strata
