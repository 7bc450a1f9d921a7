#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <thread>

#include "communicator/ranks.hpp"
#include "world.hpp"

namespace strata {
namespace {

using ::testing::AllOf;
using testing::DeviceKind;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A rank's communicator with memory for small collectives.
struct End {
  explicit End(Communicator& communicator) : communicator(communicator), rank(communicator.rank()) {
    group = communicator.create_group(testing::all_ranks(communicator.rank_count()));
  }

  CollectiveCall call(const std::string& name, std::uint64_t id) {
    names.push_back(std::make_unique<std::string>(name));
    CollectiveCall call{.group = group, .input = input.data(), .output = output.data(), .elements = 8};
    call.id = id;
    call.name = names.back().get();
    return call;
  }
  void run(const CollectiveCall& call) { communicator.start(call)->wait(); }

  Communicator& communicator;
  int rank;
  int group;
  std::vector<std::unique_ptr<std::string>> names;
  std::vector<double> input = std::vector<double>(64, 1.0);
  std::vector<double> output = std::vector<double>(64, 0.0);
};

std::vector<std::string> run(int ranks, double timeout, const std::function<void(End&)>& body) {
  return testing::run_ranks(ranks, timeout, DeviceKind::host, [&](Communicator& communicator, testing::HostDevice&) {
    End end(communicator);
    body(end);
  });
}

struct Mismatch {
  std::string what;
  std::function<void(CollectiveCall&)> change;
  std::string message;
};

class Mismatches : public ::testing::TestWithParam<Mismatch> {};

TEST_P(Mismatches, AreAnErrorOnEveryRank) {
  const auto errors = run(3, 60, [&](End& end) {
    CollectiveCall call = end.call("bucket", 17);
    if (end.rank == 1) GetParam().change(call);
    end.run(call);
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(
        errors[static_cast<std::size_t>(rank)],
        AllOf(StartsWith("rank " + std::to_string(rank) + ": "), HasSubstr("'bucket' (id 17)"),
              HasSubstr("do not mean the same"), HasSubstr("all_reduce sum of 8 f32"), HasSubstr(GetParam().message)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Mismatches,
    ::testing::Values(Mismatch{"kind", [](CollectiveCall& call) { call.kind = CollectiveKind::broadcast; },
                               "broadcast of 8 f32 from root 0"},
                      Mismatch{"dtype", [](CollectiveCall& call) { call.dtype = DType::f64; }, "sum of 8 f64"},
                      Mismatch{"elements", [](CollectiveCall& call) { call.elements = 9; }, "sum of 9 f32"},
                      Mismatch{"reduction", [](CollectiveCall& call) { call.reduction = Reduction::max; },
                               "max of 8 f32"}),
    [](const auto& info) { return info.param.what; });

TEST(Misuse, IsRefusedAtTheCall) {
  const std::vector<std::pair<std::function<void(CollectiveCall&)>, std::string>> cases{
      {[](CollectiveCall& call) { call.group = 3; }, "there is no group 3"},
      {[](CollectiveCall& call) { call.elements = -1; }, "-1 elements"},
      {[](CollectiveCall& call) { call.input = nullptr; }, "no memory"},
      {[](CollectiveCall& call) { call.output = static_cast<double*>(call.output) + 1, call.input = call.output; }, ""},
      {[](CollectiveCall& call) { call.input = static_cast<float*>(call.output) + 1; }, "overlap"},
      {[](CollectiveCall& call) { call.kind = CollectiveKind::all_to_all, call.input = call.output; }, "overlap"},
      {[](CollectiveCall& call) { call.kind = CollectiveKind::all_gather, call.input = call.output; }, ""},
      {[](CollectiveCall& call) { call.kind = CollectiveKind::reduce_scatter, call.elements = 9; },
       "9 elements do not divide among 2 ranks"},
      {[](CollectiveCall& call) { call.kind = CollectiveKind::broadcast, call.root = 2; }, "root 2 is not in a group"},
  };
  for (const auto& [change, message] : cases) {
    const auto errors = run(2, 60, [&change = change](End& end) {
      CollectiveCall call = end.call("x", 1);
      change(call);
      // Rank 1 gathers in place.
      if (call.kind == CollectiveKind::all_gather && end.rank == 1) call.input = static_cast<float*>(call.output) + 8;
      end.run(call);
    });
    EXPECT_THAT(errors, Each(message.empty() ? ::testing::Matcher<std::string>("")
                                             : AllOf(HasSubstr("'x' (id 1): "), HasSubstr(message))));
  }
}

TEST(Misuse, NoGroupWithoutThisRankOrWithUnknownOnes) {
  for (const std::vector<int>& ranks : {std::vector<int>{1}, {0, 0}, {0, 2}, {}}) {
    const auto errors = run(2, 60, [&](End& end) {
      if (end.rank == 0) (void)end.communicator.create_group(ranks);
    });
    EXPECT_THAT(errors[0], HasSubstr("no group can be made"));
  }
}

TEST(Misuse, ARankConnectsOnce) {
  local::LocalWorld world(1, 60);
  testing::HostDevice device;
  const auto communicator = world.connect(0, device);
  EXPECT_THROW((void)world.connect(0, device), RuntimeError);
  EXPECT_THROW((void)world.connect(1, device), RuntimeError);
}

TEST(Timeout, NamesWhoDidNotCome) {
  // No rank leaves before all have given up.
  std::latch given_up(4);
  const auto errors = run(4, 0.1, [&](End& end) {
    double data = 0;
    const std::string name = "activations";
    const auto stay = [&given_up](void*) { given_up.arrive_and_wait(); };
    const std::unique_ptr<void, decltype(stay)> guard(&data, stay);
    if (end.rank == 0) end.run(end.call("bucket", 17));
    if (end.rank == 1) {
      end.communicator.receive({.peer = 3, .data = &data, .bytes = 8, .id = 4, .name = &name})->wait();
    }
    if (end.rank == 2) {
      end.communicator.send({.peer = 3, .data = &data, .bytes = 8, .id = 5, .name = &name})->wait();
    }
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("rank 0: all_reduce 'bucket' (id 17): waited 0.1 s for rank 1, which "),
                               HasSubstr("; rank 2, which "), HasSubstr("; rank 3, which ")));
  EXPECT_THAT(errors[1], StartsWith("rank 1: receive 'activations' (id 4) from rank 3: waited 0.1 s for rank 3"));
  EXPECT_THAT(errors[2], StartsWith("rank 2: send 'activations' (id 5) to rank 3: waited 0.1 s for rank 3"));
  EXPECT_EQ(errors[3], "");
}

/// Each rank waits for the next one. The ranks say where they wait, so errors name the cause, which is rank 3.
TEST(Timeout, TellsWhatAPeerWaitsFor) {
  std::latch given_up(4);
  const auto errors = run(4, 1, [&](End& end) {
    double data = 0;
    const std::string name = "activations";
    const MessageCall message{.peer = end.rank + 1, .data = &data, .bytes = 8, .id = 4, .name = &name};
    const auto stay = [&given_up](void*) { given_up.arrive_and_wait(); };
    const std::unique_ptr<void, decltype(stay)> guard(&data, stay);
    if (end.rank == 0) end.communicator.send(message)->wait();
    if (end.rank == 1) {
      CollectiveCall call = end.call("bucket", 17);
      call.group = end.communicator.create_group({1, 2});
      end.run(call);
    }
    if (end.rank == 2) end.communicator.receive(message)->wait();
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1, which waits in all_reduce 'bucket' (id 17)"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2, which waits in receive 'activations' (id 4) from rank 3"));
  EXPECT_THAT(errors[2], HasSubstr("rank 3, which did not take part"));
  EXPECT_EQ(errors[3], "");
}

TEST(DeadEnd, RanksInDifferentOrderAreToldAtOnce) {
  const auto errors = run(2, 3600, [](End& end) {
    const auto first = end.communicator.start(end.call(end.rank == 0 ? "a" : "b", end.rank == 0 ? 1 : 2));
    const auto second = end.communicator.start(end.call(end.rank == 0 ? "b" : "a", end.rank == 0 ? 2 : 1));
    first->wait();
    second->wait();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, AllOf(HasSubstr("'a' (id 1)"), HasSubstr("'b' (id 2)"), HasSubstr("different orders")));
  }
}

TEST(DeadEnd, ARankThatHasLeftIsNotWaitedFor) {
  const auto errors = run(3, 3600, [](End& end) {
    double data = 0;
    if (end.rank == 0) end.run(end.call("bucket", 17));
    if (end.rank == 1) end.communicator.receive({.peer = 2, .data = &data, .bytes = 8, .id = 4})->wait();
  });
  EXPECT_THAT(errors[0], HasSubstr("which has left"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2, which has left"));
}

TEST(MessageFaults, LengthsMustAgree) {
  const auto errors = run(2, 60, [](End& end) {
    double data[2] = {};
    if (end.rank == 0) end.communicator.send({.peer = 1, .data = data, .bytes = 16, .id = 4})->wait();
    if (end.rank == 1) end.communicator.receive({.peer = 0, .data = data, .bytes = 8, .id = 4})->wait();
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 0 sends 16 bytes, rank 1 receives 8")));
}

TEST(Abort, EndsEveryWait) {
  const auto errors = run(4, 3600, [](End& end) {
    double data = 0;
    if (end.rank == 0) end.run(end.call("bucket", 17));
    if (end.rank == 1) end.communicator.receive({.peer = 0, .data = &data, .bytes = 8, .id = 4})->wait();
    if (end.rank == 2) end.communicator.send({.peer = 0, .data = &data, .bytes = 8, .id = 5})->wait();
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
    end.run(end.call("bucket", 17));
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("aborted: "), HasSubstr("reason")));
}

/// A device that fails in the middle of a collective.
class FailingDevice final : public testing::HostDevice {
 public:
  void reduce(StreamKind, Reduction, DType, void*, std::span<const void* const>, std::int64_t) override {
    throw RuntimeError("the device is on fire");
  }
};

/// In a long collective, every rank needs the sums of the others.
TEST(DeviceFaults, ReachEveryRankOfTheCollective) {
  local::LocalWorld world(2, 3600);
  std::vector<std::string> errors(2);
  const auto body = [&](int rank) {
    FailingDevice failing;
    testing::HostDevice sound;
    Device& device = rank == 0 ? static_cast<Device&>(failing) : sound;
    const auto communicator = world.connect(rank, device);
    End end(*communicator);
    end.input.resize(1 << 20);
    end.output.resize(1 << 20);
    CollectiveCall call = end.call("bucket", 17);
    call.elements = 1 << 20;
    try {
      end.run(call);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("'bucket' (id 17)"), HasSubstr("the device is on fire"))));
}

TEST(Factory, HasATimeoutWithDefaultAndRange) {
  const local::LocalCommunicatorFactory factory;
  EXPECT_EQ(factory.create(Options(factory.options(), {}), 3)->rank_count(), 3);
  EXPECT_EQ(Options(factory.options(), {}).number("timeout"), 300.0);
  EXPECT_THROW(Options(factory.options(), {{"timeout", 0.0}}), ConfigurationError);
  EXPECT_THAT(factory.create(Options(factory.options(), {}), 3)->local_ranks(), ::testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace strata
