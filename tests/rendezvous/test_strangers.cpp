#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/admission.hpp"
#include "rendezvous/bytes.hpp"
#include "rendezvous/protocol.hpp"
#include "rendezvous/socket.hpp"
#include "rendezvous_run.hpp"

namespace strata::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Limits the descriptors that this process may have open.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    set(limit);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  void set(rlim_t limit) const {
    const rlimit wanted{std::min(limit, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &wanted);
  }
  /// Leaves no descriptor free.
  void exhaust() const {
    const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest);
    set(static_cast<rlim_t>(lowest));
  }

 private:
  rlimit before_{};
};

/// An admission that tests call with times of their own.
class AdmissionOfTwo : public ::testing::Test {
 protected:
  [[nodiscard]] Descriptor connect() const { return connect_to("127.0.0.1", port_, Clock::now() + 60s); }
  /// Whether the next call of work() would accept connections.
  [[nodiscard]] bool accepts() const {
    std::vector<pollfd> wanted;
    Clock::time_point deadline = Clock::time_point::max();
    admission_.add_to(wanted, deadline);
    return !wanted.empty();
  }
  static bool is_greeted(const Descriptor& socket) {
    std::string received;
    const auto frame = next_frame(socket, received);
    return frame && frame->kind == FrameKind::greeting;
  }
  static bool is_open(const Descriptor& socket) {
    std::string received;
    return !receive_some(socket, received);
  }
  std::size_t work(Clock::time_point now) { return admission_.work(now).size(); }

  std::vector<std::string> notices_;
  Heartbeat heartbeat_{.notice = [this](const std::string& text) { notices_.push_back(text); }};
  Listener listener_ = listen_on("127.0.0.1", 0);
  std::uint16_t port_ = port_of(listener_);
  Admission admission_{std::move(listener_), 2, kSecret, heartbeat_};
  Clock::time_point start_ = Clock::now();
};

TEST_F(AdmissionOfTwo, GivesAStrangerTenSecondsHoweverSlowlyItTalks) {
  const Descriptor slow = connect();
  EXPECT_EQ(work(start_), 0U);
  EXPECT_TRUE(is_greeted(slow));
  const std::string request = encode(join_frame({random_text(kChallengeBytes), 1, 2}, {}, kSecret));
  for (std::size_t i = 0; i + 1 < request.size(); ++i) {
    write(slow, request.substr(i, 1));
    EXPECT_EQ(work(start_ + i * 100ms), 0U);
  }
  EXPECT_TRUE(is_open(slow));
  EXPECT_EQ(work(start_ + 10s), 0U);
  EXPECT_TRUE(is_closed_by_peer(slow));
}

TEST_F(AdmissionOfTwo, WaitsWithoutDescriptors) {
  const DescriptorLimit limit(1024);
  const Descriptor waiting = connect();
  limit.exhaust();
  EXPECT_EQ(work(start_), 0U);
  EXPECT_EQ(work(start_ + 50ms), 0U);
  EXPECT_FALSE(accepts()) << "the thread would not sleep";
  EXPECT_THAT(notices_,
              ::testing::ElementsAre(AllOf(HasSubstr("rank 0 cannot accept"), HasSubstr("Too many open files"))));
  limit.set(1024);
  EXPECT_EQ(work(start_ + 200ms), 0U);
  EXPECT_TRUE(is_greeted(waiting));
}

TEST_F(AdmissionOfTwo, DropsTheOldestStrangerIfThereAreNoDescriptors) {
  const DescriptorLimit limit(1024);
  const Descriptor old = connect();
  EXPECT_EQ(work(start_), 0U);
  const Descriptor young = connect();
  limit.exhaust();
  EXPECT_EQ(work(start_), 0U);
  EXPECT_TRUE(is_greeted(young));
  EXPECT_TRUE(is_closed_by_peer(old));
}

TEST(Strangers, AThousandOfThemDoNotKeepARankOut) {
  const DescriptorLimit limit(4096);
  const auto all = processes(2);
  std::vector<Descriptor> idle;
  std::thread first([&] {
    EXPECT_EQ(error_of([&] {
                const auto store = join(all[0], Clock::now() + 120s);
                (void)Exchange(*store, 0, 2, 60s).all_gather("x", "");
              }),
              "");
  });
  for (int i = 0; i < 1000; ++i) idle.push_back(stranger(all[0].port));
  // The oldest were dropped when the youngest came.
  for (std::size_t i = 0; i < 1000 - kMostStrangers - 2; ++i) ASSERT_TRUE(is_closed_by_peer(idle[i])) << i;
  EXPECT_EQ(error_of([&] {
              const auto store = join(all[1], Clock::now() + 120s);
              // The others were dropped when all ranks had come.
              EXPECT_TRUE(std::all_of(idle.begin(), idle.end(), is_closed_by_peer));
              (void)Exchange(*store, 1, 2, 60s).all_gather("x", "");
            }),
            "");
  first.join();
}

TEST(Strangers, DoNoHarm) {
  const auto all = processes(3);
  const auto body = [](Store& store, const ProcessEnvironment& own) {
    (void)Exchange(store, own.rank, 3, 60s).all_gather("first", "");
  };
  std::vector<std::string> errors;
  std::thread others([&] { errors = run({all[0], all[1]}, 120s, body); });
  const Descriptor silent = stranger(all[0].port);
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"),
                                   header_of({FrameKind::join, std::string(kLongestFrameOfStranger + 1, 'x')}),
                                   encode({FrameKind::failure, "not mine to say"})}) {
    const Descriptor noisy = stranger(all[0].port);
    write(noisy, bytes);
    EXPECT_TRUE(is_closed_by_peer(noisy)) << bytes;
  }
  EXPECT_THAT(run({all[2]}, 120s, body), Each(""));
  others.join();
  EXPECT_THAT(errors, Each(""));
  EXPECT_TRUE(is_closed_by_peer(silent));
}

TEST(Strangers, AreNotAcceptedAfterTheStart) {
  const auto all = processes(2);
  std::string late;
  const auto errors = run(all, 60s, [&](Store& store, const ProcessEnvironment& own) {
    Exchange exchange(store, own.rank, 2, 60s);
    (void)exchange.all_gather("first", "");
    if (own.rank == 0) {
      // A process of the same rank that knows the secret, such as one that an earlier run has left.
      late = error_of([&] { (void)join(all[1], Clock::now() + 300ms); });
    }
    (void)exchange.all_gather("second", "");
    EXPECT_FALSE(store.failure());
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(late, AllOf(StartsWith("rank 1: no connection to rank 0 at '127.0.0.1'"), HasSubstr("refused"),
                          HasSubstr("only until all ranks have come")));
}

TEST(Strangers, DoNotTakeThePlaceOfARankForLong) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::thread first([&] {
    for (const bool drops : {true, true, false}) {
      Accepted accepted;
      while (!accepted.socket.is_open()) accepted = accept_from(listener.sockets.front());
      write(accepted.socket, encode(greeting_frame({random_text(kChallengeBytes)})));
      if (drops) continue;
      write(accepted.socket, encode({FrameKind::rejection, "the third attempt"}));
      (void)is_closed_by_peer(accepted.socket);
    }
  });
  EXPECT_THAT(error_of([&] { (void)join(environment(1, 2, port_of(listener)), Clock::now() + 60s); }),
              HasSubstr("the third attempt"));
  first.join();
}

/// Talks with one process that joins as rank 1. `answer` gets the socket after the request to join.
std::string error_at_impostor(const std::string& greeting, const std::function<void(const Descriptor&)>& answer) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::thread impostor([&] {
    Descriptor peer;
    while (!peer.is_open()) peer = accept_from(listener.sockets.front()).socket;
    write(peer, greeting);
    std::string received;
    EXPECT_EQ(received.find(kSecret), std::string::npos) << "the secret itself is never sent";
    answer(peer);
    (void)is_closed_by_peer(peer);
  });
  std::string error = error_of([&] { (void)join(environment(1, 2, port_of(listener)), Clock::now() + 60s); });
  impostor.join();
  return error;
}

const std::string kEscape = "\x1b[2J\x1b]0;owned\x07";

TEST(Strangers, CannotPoseAsTheFirstRank) {
  const std::string greeting = encode(greeting_frame({random_text(kChallengeBytes)}));
  FrameWriter writer(random_text(kDigestBytes));
  EXPECT_THAT(error_at_impostor(greeting,
                                [&](const Descriptor& peer) {
                                  write(peer, writer.write({FrameKind::welcome, ""}));
                                }),
              HasSubstr("does not know STRATA_SECRET"));
  EXPECT_THAT(error_at_impostor(greeting,
                                [&](const Descriptor& peer) {
                                  write(peer, encode({FrameKind::welcome, random_text(32)}));
                                }),
              HasSubstr("does not know STRATA_SECRET"));
}

TEST(Strangers, CannotSendEscapeSequencesToTheTerminal) {
  const std::string greeting = encode(greeting_frame({random_text(kChallengeBytes)}));
  const std::string rejected = error_at_impostor(greeting, [&](const Descriptor& peer) {
    write(peer, encode({FrameKind::rejection, kEscape + std::string(400, 'x')}));
  });
  EXPECT_THAT(rejected, AllOf(StartsWith("configuration: rank 1: refused by what listens at "), HasSubstr("\\x1b[2J"),
                              Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
  EXPECT_LT(rejected.size(), 400U);

  const std::string version = error_at_impostor(
      encode({FrameKind::greeting, std::string("\0\0\0\x0f", 4) + kEscape + "12"}), [](const Descriptor& /*peer*/) {});
  EXPECT_THAT(version, AllOf(HasSubstr("speaks '\\x1b[2J"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

TEST(Interfaces, OnlyTheNamedOneIsBound) {
  for (const std::string& address : own_addresses()) {
    if (address.find('%') != std::string::npos) continue;
    const Listener listener = listen_on(address, 0);
    EXPECT_THAT(listener.addresses, ::testing::ElementsAre(address));
    EXPECT_THAT(error_of([&] { (void)connect_to("127.0.0.1", port_of(listener), Clock::now()); }),
                HasSubstr("refused"));
    EXPECT_EQ(error_of([&] { (void)connect_to(address, port_of(listener), Clock::now() + 60s); }), "");
  }
  const Listener loopback = listen_on("localhost", 0);
  for (const std::string& address : own_addresses()) {
    EXPECT_THAT(error_of([&] { (void)connect_to(address, port_of(loopback), Clock::now()); }), HasSubstr("refused"));
  }
}

TEST(Interfaces, EveryAddressOfTheNameIsBound) {
  const Listener listener = listen_on("localhost", 0);
  EXPECT_THAT(listener.addresses, Each(::testing::AnyOf("127.0.0.1", "::1")));
  for (const std::string& address : listener.addresses) {
    EXPECT_EQ(error_of([&] { (void)connect_to(address, port_of(listener), Clock::now() + 60s); }), "");
  }
}

TEST(Interfaces, ThoseOfOtherMachinesAreRefused) {
  for (const char* host : {"192.0.2.1", "2001:db8::1"}) {
    EXPECT_THAT(error_of([&] { (void)listen_on(host, 29500); }),
                AllOf(StartsWith("configuration: rank 0 cannot listen on port 29500 of '" + std::string(host)),
                      HasSubstr("MASTER_ADDR must be an address of the machine on which rank 0 runs")));
  }
}

TEST(Interfaces, ANameOfTheLoopbackInterfaceGetsACaveat) {
  EXPECT_THAT(caveat_of("node0", true), HasSubstr("'node0' is an address of the loopback interface"));
  EXPECT_EQ(caveat_of("node0", false), "");
  for (const char* host : {"localhost", "127.0.0.1", "::1"}) EXPECT_EQ(caveat_of(host, true), "") << host;
}

TEST(Interfaces, RanksMeetOverIpv6) {
  const std::string error = error_of([] { (void)listen_on("::1", 0); });
  if (!error.empty()) GTEST_SKIP() << error;
  auto all = processes(2);
  for (ProcessEnvironment& each : all) each.address = "::1";
  const auto errors = run(all, 60s, [](Store& store, const ProcessEnvironment& own) {
    (void)Exchange(store, own.rank, 2, 60s).all_gather("x", "");
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace strata::rendezvous
