#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/bytes.hpp"
#include "rendezvous_run.hpp"

namespace strata::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Rendezvous, GathersAndBroadcasts) {
  for (const int count : {2, 3, 8}) {
    const auto errors = run(processes(count), 60s, [&](Store& store, const ProcessEnvironment& own) {
      Exchange exchange(store, own.rank, count, 60s);
      std::vector<std::string> expected;
      for (int rank = 0; rank < count; ++rank) expected.push_back(std::string(static_cast<std::size_t>(rank), 'x'));
      EXPECT_EQ(exchange.all_gather("first", expected[static_cast<std::size_t>(own.rank)]), expected);
      const std::string large(300000, 'y');
      for (int root = 0; root < count; ++root) {
        EXPECT_EQ(exchange.broadcast("from " + std::to_string(root), root, own.rank == root ? large : ""), large);
      }
      (void)exchange.all_gather("last", "");
    });
    EXPECT_THAT(errors, Each("")) << count;
  }
}

TEST(Rendezvous, RanksMayComeBeforeTheFirst) {
  const auto all = processes(3);
  const auto errors = run(all, 60s, [&](Store& store, const ProcessEnvironment& own) {
    (void)Exchange(store, own.rank, 3, 60s).all_gather("x", "");
  });
  EXPECT_THAT(errors, Each(""));

  const std::uint16_t port = free_port();
  std::thread early([port] {
    const auto store = join(environment(1, 2, port), Clock::now() + 60s);
    EXPECT_EQ(store->take("key", Clock::now() + 60s), "value");
  });
  std::this_thread::sleep_for(300ms);
  const auto store = join(environment(0, 2, port), Clock::now() + 60s);
  store->put("key", "value", 1);
  early.join();
}

TEST(Rendezvous, TheFirstRankNamesThoseThatDoNotCome) {
  const std::uint16_t port = free_port();
  const auto errors =
      run({environment(0, 4, port), environment(2, 4, port)}, 500ms, [](Store& store, const ProcessEnvironment& own) {
        (void)Exchange(store, own.rank, 4, 60s).all_gather("host names", "");
      });
  EXPECT_THAT(errors[0], HasSubstr("rank 0: waited in vain for ranks 1, 3 to join rank 0 at '127.0.0.1' port "));
  EXPECT_THAT(errors[1], AllOf(StartsWith("aborted: rank 2: "), HasSubstr("waited in vain for ranks 1, 3")));
}

TEST(Rendezvous, SaysWhereTheFirstRankWasLookedFor) {
  const std::uint16_t port = free_port();
  const auto errors = run({environment(1, 2, port)}, 200ms, nothing);
  EXPECT_THAT(errors[0], AllOf(StartsWith("rank 1: no connection to rank 0 at '127.0.0.1' port "),
                               HasSubstr(std::to_string(port)), HasSubstr("refused")));
}

TEST(Rendezvous, RefusesAnotherSecret) {
  auto all = processes(2);
  all[1].secret = "another secret for tests";
  const auto errors = run(all, 500ms, nothing);
  EXPECT_THAT(errors[1], AllOf(StartsWith("configuration: rank 1: "), HasSubstr("STRATA_SECRET is not the same")));
  EXPECT_THAT(errors[0], AllOf(HasSubstr("in vain for rank 1"), HasSubstr("refused: 127.0.0.1: STRATA_SECRET")));
}

TEST(Rendezvous, RefusesTwoProcessesOfOneRank) {
  const std::uint16_t port = free_port();
  const auto errors = run(
      {environment(0, 3, port), environment(1, 3, port), environment(1, 3, port)}, 60s,
      [](Store& store, const ProcessEnvironment& own) { (void)Exchange(store, own.rank, 3, 60s).all_gather("x", ""); });
  EXPECT_THAT(errors, Each(HasSubstr("two processes were started as rank 1")));
  EXPECT_THAT(errors, ::testing::Contains(StartsWith("configuration: rank 1: ")).Times(1));
}

TEST(Rendezvous, RefusesAnotherNumberOfRanks) {
  auto all = processes(2);
  all[1].rank_count = 5;
  EXPECT_THAT(run(all, 60s, nothing), Each(HasSubstr("rank 1 was started with 5 ranks, rank 0 with 2")))
      << "rank 0 does not wait for it";
}

/// Stays until all ranks have come.
void meet(Store& store, const ProcessEnvironment& own) {
  (void)Exchange(store, own.rank, own.rank_count, 60s).all_gather("x", "");
}

TEST(Waiting, EveryRankNamesThoseThatAreMissing) {
  const std::uint16_t port = free_port();
  Notices notices;
  std::vector<std::string> errors;
  std::thread early([&] {
    errors = run({environment(0, 5, port), environment(2, 5, port)}, 120s, meet, notices.heartbeat(1h));
  });
  EXPECT_TRUE(
      notices.await_equal(" s for ranks 1, 3, 4 to join rank 0 at '127.0.0.1' port " + std::to_string(port), 2));
  EXPECT_THAT(run({environment(1, 5, port), environment(3, 5, port), environment(4, 5, port)}, 120s, meet), Each(""));
  early.join();
  EXPECT_THAT(errors, Each(""));
}

TEST(Waiting, ARankSaysWhyItDoesNotReachTheFirst) {
  const std::uint16_t port = free_port();
  Notices notices;
  std::vector<std::string> errors;
  std::thread early([&] { errors = run({environment(1, 2, port)}, 120s, meet, notices.heartbeat(1h)); });
  EXPECT_TRUE(notices.await_text(" s for rank 0 at '127.0.0.1' port " + std::to_string(port) + ": Connection refused"));
  EXPECT_THAT(run({environment(0, 2, port)}, 120s, meet), Each(""));
  early.join();
  EXPECT_THAT(errors, Each(""));
}

TEST(Waiting, APortThatAnotherProgramHoldsIsNamed) {
  const Listener other = listen_on("127.0.0.1", 0);
  Notices notices;
  const auto join_it = [&](std::chrono::milliseconds patience) {
    return run({environment(1, 2, port_of(other))}, patience, nothing, notices.heartbeat(1h)).front();
  };
  const std::string silent = join_it(500ms);
  EXPECT_THAT(silent, AllOf(HasSubstr("says nothing"), HasSubstr("another program may hold the port")));
  EXPECT_TRUE(notices.await_text("another program may hold the port"));

  std::thread speaker([&] {
    // The first connection is left from before.
    for (int connections = 0; connections < 2;) {
      const Accepted accepted = accept_from(other.sockets.front());
      if (!accepted.socket.is_open()) continue;
      ++connections;
      write(accepted.socket, "SSH-2.0-OpenSSH_9.2\r\n");
      (void)is_closed_by_peer(accepted.socket);
    }
  });
  EXPECT_THAT(join_it(60s), AllOf(StartsWith("configuration: rank 1: what listens at '127.0.0.1' port "),
                                  HasSubstr("is not rank 0 of a run; another program may hold the port")));
  speaker.join();
}

TEST(Waiting, ANameThatDoesNotResolveFailsAfterAFewAttempts) {
  Notices notices;
  ProcessEnvironment own = environment(1, 2, 29500);
  // No resolver asks its servers for a name that is too long.
  own.address = std::string(300, 'x');
  EXPECT_THAT(run({own}, 1h, nothing, notices.heartbeat(1h)),
              Each(AllOf(StartsWith("configuration: rank 1: MASTER_ADDR: found 'xxx"),
                         HasSubstr("did not resolve in 5 attempts: "))));
}

TEST(Waiting, RanksAreNamedInRanges) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({1, 2, 4, 5, 6, 9}), "ranks 1, 2, 4 to 6, 9");
}

TEST(Rendezvous, SaysThatThePortIsTaken) {
  const Listener taken = listen_on("127.0.0.1", 0);
  const auto errors = run({environment(0, 2, port_of(taken))}, 60s, nothing);
  EXPECT_THAT(errors[0], AllOf(StartsWith("configuration: rank 0 cannot listen on port "), HasSubstr("in use"),
                               HasSubstr("STRATA_PORT")));
}

TEST(Rendezvous, SpreadsTheFirstFailure) {
  const auto errors = run(processes(4), 60s, [](Store& store, const ProcessEnvironment& own) {
    Exchange exchange(store, own.rank, 4, 60s);
    (void)exchange.all_gather("begin", "");
    if (own.rank == 2) return store.fail(2, "the disk is full");
    (void)exchange.broadcast("never", 2, "");
  });
  EXPECT_EQ(errors[2], "");
  for (const std::size_t rank : {0U, 1U, 3U}) {
    EXPECT_THAT(errors[rank], AllOf(StartsWith("aborted: "), HasSubstr("rank 2 failed: the disk is full")));
  }
}

TEST(Rendezvous, ARankThatLeavesAsPlannedIsNoFailure) {
  const auto errors = run(processes(3), 60s, [](Store& store, const ProcessEnvironment& own) {
    Exchange exchange(store, own.rank, 3, 60s);
    (void)exchange.all_gather("begin", "");
    if (own.rank == 1) return;
    if (own.rank == 2) {
      std::this_thread::sleep_for(300ms);
      store.put("late", "value", 1);
    }
    if (own.rank == 0) {
      EXPECT_EQ(store.take("late", Clock::now() + 60s), "value");
    }
    EXPECT_FALSE(store.failure());
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, TheFirstRankLeavesWhenWhatItHasLeftIsTaken) {
  const auto errors = run(processes(2), 60s, [](Store& store, const ProcessEnvironment& own) {
    if (own.rank == 0) return store.put("legacy", "value", 1);
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(store.take("legacy", Clock::now() + 60s), "value");
    EXPECT_EQ(store.take("more", Clock::now() + 60s), std::nullopt) << "it does not wait for who has left";
    EXPECT_FALSE(store.failure());
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, AllGatherNamesWhoIsMissing) {
  const auto errors = run(processes(3), 60s, [](Store& store, const ProcessEnvironment& own) {
    Exchange exchange(store, own.rank, 3, 300ms);
    if (own.rank == 0) {
      EXPECT_THROW((void)exchange.all_gather("sizes", ""), RuntimeError);
    }
    // Stays until all ranks have seen the failure.
    while (!store.failure()) std::this_thread::sleep_for(1ms);
    EXPECT_THAT(store.failure()->reason, HasSubstr("rank 0: waited 0.3 s in sizes: rank 1, 2 did not come"));
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace strata::rendezvous
